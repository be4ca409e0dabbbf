"""Small made-up results in the layouts of other people's agents."""

from __future__ import annotations

import io
import json
from pathlib import Path

from PIL import Image


def picture(colour: str = "white", format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(buffer, format)
    return buffer.getvalue()


def webvoyager_folder(
    root: Path, id: str, *, task: str = "Find the price of tea.", answer: str | None = "Tea is 3 euros.", shots: int = 3
) -> Path:
    """As WebVoyager's own agent leaves it."""
    folder = root / f"task{id}"
    folder.mkdir(parents=True)
    first = f"Now given a task: {task}  Please interact with https://shop.example/ and get the answer. Observation: ..."
    last = "Thought: done\n\nAction: " + ("Wait" if answer is None else f"ANSWER; [{answer}]")
    messages = [
        {"role": "system", "content": "Imagine you are a robot browsing the web."},
        {"role": "user", "content": first},
        {"role": "assistant", "content": "Thought: look\n\nAction: Click [5]"},
        {"role": "user", "content": [{"type": "text", "text": "Observation: ..."}]},
        {"role": "assistant", "content": last},
    ]
    (folder / "interact_messages.json").write_text(json.dumps(messages))
    for number in range(1, shots + 1):
        (folder / f"screenshot{number}.png").write_bytes(picture(f"rgb({number}, 0, 0)"))
    return folder


def mind2web_folder(root: Path, id: str, *, second: bool = False, shots: int = 3, actions: int = 3) -> Path:
    """As Online-Mind2Web asks for it, in the first or the second version of its format."""
    folder = root / id
    (folder / "trajectory").mkdir(parents=True)
    names = [f"{number}_full_screenshot.png" for number in range(shots)]
    for number, name in enumerate(names):
        (folder / "trajectory" / name).write_bytes(picture(f"rgb(0, {number}, 0)"))
    done = [f"<button> number {number} -> CLICK" for number in range(actions)]
    result: dict[str, object] = {"task_id": id, "task": "Open the cheapest tea.", "final_result_response": "opened"}
    if second:
        steps = [{"action": a, "thought": "", "screenshot": s} for a, s in zip([*done, "DONE"], names, strict=False)]
        result = {**result, "schema_version": "online-mind2web-v2", "action_history": steps, "agent_final_answer": "ok"}
    else:
        result["action_history"] = done
    (folder / "result.json").write_text(json.dumps(result))
    return folder
