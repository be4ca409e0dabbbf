from __future__ import annotations

import asyncio

from browser_use.agent.views import AgentOutput
from browser_use.llm.messages import (
    ContentPartImageParam,
    ContentPartTextParam,
    ImageURL,
    SystemMessage,
    UserMessage,
)
from browser_use.llm.openai.chat import ChatOpenAI
from browser_use.tools.service import Tools
from harness import POLICY, picture, run, trial

ACTIONS = Tools().registry.create_action_model()


def ask(form: type[AgentOutput] | None) -> object:
    """As its agent asks: a picture of the page, the class's own settings (a frequency penalty among them)."""
    page = ContentPartImageParam(image_url=ImageURL(url=picture(320, 320), detail="auto", media_type="image/png"))
    messages = [
        SystemMessage(content="You are a browser agent."),
        UserMessage(content=[ContentPartTextParam(text="Press OK."), page]),
    ]
    model = ChatOpenAI(model=POLICY.model, base_url=POLICY.url, api_key="none", max_retries=0)
    return asyncio.run(model.ainvoke(messages, output_format=form)).completion


@trial
def plain() -> None:
    assert isinstance(ask(None), str)


@trial
def agent_output() -> None:
    """The whole output schema: a dozen kinds of actions, nested optional fields."""
    reply = ask(AgentOutput.type_with_custom_actions(ACTIONS))
    assert isinstance(reply, AgentOutput)
    assert reply.action, "the schema wants at least one"


@trial
def flash_mode() -> None:
    assert isinstance(ask(AgentOutput.type_with_custom_actions_flash_mode(ACTIONS)), AgentOutput)


run()
