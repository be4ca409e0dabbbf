"""The published judge of WebVoyager: one question with the last screenshots, one verdict.

The texts below are the protocol itself, word for word, because another wording is another judge. They are those of He
et al., "WebVoyager: Building an End-to-End Web Agent with Large Multimodal Models" (arXiv 2401.13919), published as
`evaluation/auto_eval.py` of MinorJerry/WebVoyager, Copyright its authors, Apache License 2.0; see NOTICE. Temperature
0, seed 42, at most 1,000 tokens. The published script shows 15 screenshots, the argument's default is 1.

Where the script reads a verdict out of a reply that holds none, there is none here: a reply that was cut off by the
limit of tokens, and one that says UNSUCCESSFUL and nothing else (which the script calls a success).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from holotron.agent.messages import Message
from holotron.errors import ConfigError
from holotron.evals.judging.cases import NOTHING_TO_SEE, Ask, Case, Decided, JudgeRequest, Ruling, picture, protocols

SYSTEM = """As an evaluator, you will be presented with three primary components to assist you in your role:

1. Web Task Instruction: This is a clear and specific directive provided in natural language, detailing the online activity to be carried out. These requirements may include conducting searches, verifying information, comparing prices, checking availability, or any other action relevant to the specified web service (such as Amazon, Apple, ArXiv, BBC News, Booking etc).

2. Result Screenshots: This is a visual representation of the screen showing the result or intermediate state of performing a web task. It serves as visual proof of the actions taken in response to the instruction.

3. Result Response: This is a textual response obtained after the execution of the web task. It serves as textual result in response to the instruction.

-- You DO NOT NEED to interact with web pages or perform actions such as booking flights or conducting searches on websites.
-- You SHOULD NOT make assumptions based on information not presented in the screenshot when comparing it to the instructions.
-- Your primary responsibility is to conduct a thorough assessment of the web task instruction against the outcome depicted in the screenshot and in the response, evaluating whether the actions taken align with the given instructions.
-- NOTE that the instruction may involve more than one task, for example, locating the garage and summarizing the review. Failing to complete either task, such as not providing a summary, should be considered unsuccessful.
-- NOTE that the screenshot is authentic, but the response provided by LLM is generated at the end of web browsing, and there may be discrepancies between the text and the screenshots.
-- Note the difference: 1) Result response may contradict the screenshot, then the content of the screenshot prevails, 2) The content in the Result response is not mentioned on the screenshot, choose to believe the content.

You should elaborate on how you arrived at your final evaluation and then provide a definitive verdict on whether the task has been successfully accomplished, either as 'SUCCESS' or 'NOT SUCCESS'."""  # noqa: E501
USER = "TASK: <task>\nResult Response: <answer>\n<num> screenshots at the end: "
LAST = "Your verdict:\n"
SCREENSHOTS = 15


class WebVoyagerJudge:
    name = "webvoyager"
    max_tokens = 1000

    def __init__(self, screenshots: int = SCREENSHOTS) -> None:
        if screenshots < 1:
            raise ConfigError("the WebVoyager judge is shown at least one screenshot")
        self._screenshots = screenshots

    def describe(self) -> dict[str, Any]:
        prompts = hashlib.sha256("\0".join((SYSTEM, USER, LAST)).encode()).hexdigest()[:16]
        return {"protocol": self.name, "prompts": prompts, "screenshots": self._screenshots}

    def messages(self, case: Case) -> list[Message]:
        """`<num>` is how many were asked for, also where the episode has fewer: that is how it was published."""
        text = USER.replace("<task>", case.goal).replace("<answer>", case.answer or "")
        text = text.replace("<num>", str(self._screenshots))
        shown = [picture(path) for path in case.screenshots[-self._screenshots :]]
        return [Message("system", (SYSTEM,)), Message("user", (text, *shown, LAST))]

    async def rule(self, case: Case, ask: Ask) -> Ruling:
        if case.answer is None:
            return Ruling(False, Decided.RULE, "the agent gave no answer")
        if not case.screenshots:
            return NOTHING_TO_SEE
        messages = self.messages(case)
        shown = len(messages[1].images)
        said = await ask(messages)
        if (nothing := said.without_verdict(shown)) is not None:
            return nothing
        verdict = read_verdict(said.text)
        return Ruling(verdict, Decided.MALFORMED if verdict is None else Decided.MODEL, said.text, {}, shown)


def read_verdict(text: str) -> bool | None:
    """NOT SUCCESS anywhere is a failure; else SUCCESS anywhere a success; else there is none."""
    if "NOT SUCCESS" in text:
        return False
    return True if re.search(r"(?<!UN)SUCCESS", text) else None


@protocols.register("webvoyager")
def make_webvoyager_judge(request: JudgeRequest) -> WebVoyagerJudge:
    """WebVoyager's own: one question with the task, the answer and the last screenshots."""
    request.refuse("webvoyager", "threshold")
    return WebVoyagerJudge(SCREENSHOTS if request.screenshots is None else request.screenshots)
