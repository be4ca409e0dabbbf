"""A verifiers harness that asks the model itself: one chat completion, tools called as long as the model wants any.

verifiers' own chat harnesses run a program in a runtime, which needs `uv` and a package index. This one runs in the
process that plays, so it works wherever verifiers is installed. Model calls go through verifiers' interception as they
must, so traces and limits are as usual. Imports verifiers and what comes with it, nothing of ours.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import mcp_client
from verifiers.v1.runtimes import ProgramResult

__all__ = ["DirectHarness"]

MOST_TOOL_ROUNDS = 200  # the agent's own limits (max_turns and so on) come first


class DirectHarnessConfig(vf.HarnessConfig):
    pass


class DirectHarness(vf.Harness[DirectHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: vf.Trace,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        async with AsyncExitStack() as stack:
            tools, calls = await _tools(stack, mcp_urls, self.config.tool_timeout)
            http = await stack.enter_async_context(
                httpx.AsyncClient(timeout=None, headers={"Authorization": f"Bearer {secret}"}, trust_env=False)
            )
            for _ in range(MOST_TOOL_ROUNDS):
                body = {"model": ctx.model, "messages": messages} | ({"tools": tools} if tools else {})
                response = await http.post(f"{endpoint.rstrip('/')}/chat/completions", json=body)
                if response.status_code != 200:
                    return ProgramResult(1, "", f"the model answered {response.status_code}: {response.text[:500]}")
                message = response.json()["choices"][0]["message"]
                messages.append({key: value for key, value in message.items() if value is not None})
                wanted = message.get("tool_calls") or []
                if not wanted:
                    break
                for call in wanted:
                    messages.append(await _called(calls, call))
        return ProgramResult(0, "", "")


async def _tools(
    stack: AsyncExitStack, urls: dict[str, str], timeout: float | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the task's servers offer, as the chat API wants it, and who answers each."""
    offered: list[dict[str, Any]] = []
    clients: dict[str, Any] = {}
    for url in urls.values():
        client = await stack.enter_async_context(mcp_client({"url": url, "timeout": timeout or 600.0}))
        for tool in (await client.list_tools()).tools:
            schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None) or {"type": "object"}
            function = {"name": tool.name, "description": tool.description or "", "parameters": schema}
            offered.append({"type": "function", "function": function})
            clients[tool.name] = client
    return offered, clients


async def _called(clients: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    name, written = call["function"]["name"], call["function"].get("arguments") or "{}"
    try:
        arguments = json.loads(written)
        result = await clients[name].call_tool(name, arguments)
        text = "\n".join(getattr(part, "text", "") for part in result.content)
    except KeyError:
        text = f"there is no tool {name!r}"
    except Exception as error:  # what a tool says when it fails is the model's to read
        text = f"{type(error).__name__}: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": text}
