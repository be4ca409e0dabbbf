"""Asking at the terminal: the question as plain text, the picture as a file beside it, and no unless yes is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holotron.cli.terminal import read_line
from holotron.envs.effects.question import ALLOW_ONCE, ALLOW_SITE, Approver, Decision, Question, refuse

PROMPT = "Allow it?  y = once   s = for this site, from now on   n or anything else = no (a reason may follow): "


def terminal_approver(folder: Path) -> Approver:
    """Pictures are put into `folder`, so that a person can look at what the agent saw."""

    async def ask(question: Question) -> Decision:
        print(_plain(f"\nThe agent asks: {question}"))
        if question.screenshot:
            picture = folder / f"question.{question.mime.rpartition('/')[2]}"
            folder.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(question.screenshot)
            print(f"  picture  {picture}")
        return read_answer(await read_line(PROMPT))

    return ask


def first_of(*approvers: Approver) -> Approver:
    """Ask several at once; the first answer counts, and the others need not answer any more."""

    async def ask(question: Question) -> Decision:
        asked = [asyncio.ensure_future(one(question)) for one in approvers]
        try:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for one in asked:
                one.cancel()
            await asyncio.wait(asked)

    return ask


def read_answer(line: str) -> Decision:
    """No is the default: an empty line, a slip of the fingers, the end of the input."""
    word, _, rest = line.strip().partition(" ")
    match word.lower():
        case "y" | "yes" if not rest:
            return ALLOW_ONCE
        case "s" | "site" if not rest:
            return ALLOW_SITE
        case "n" | "no":
            return refuse(rest.strip())
    return refuse(line.strip())


def _plain(text: str) -> str:
    """Nothing but letters and lines: terminals obey what is not."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
