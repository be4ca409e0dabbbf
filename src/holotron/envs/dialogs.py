"""Answering what a page asks in a box of the browser's: the page stands still until somebody does."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import Dialog
from playwright.async_api import Error as PlaywrightError

from holotron.envs.effects.gate import Gate
from holotron.quoting import quoted


async def answer_dialog(
    dialog: Dialog, note: Callable[[str], None], hide: Callable[[str], str], gate: Gate | None
) -> None:
    """Questions for a text are dismissed. The rest is accepted; where a person wants to be asked, "are you sure?" and
    leaving a page with unsaved changes are that person's to answer, once the agent has acted."""
    said = quoted(hide(dialog.message), 300)  # the page's words end where our quote ends
    try:
        if dialog.type == "prompt":
            await dialog.dismiss()
            note(f"A dialog asked {said}; it was dismissed.")
            return
        url = dialog.page.url if dialog.page else ""
        leaving = dialog.type == "beforeunload"
        asked = gate if leaving or dialog.type == "confirm" else None
        if asked is not None and not await asked.allows_dialog(url, hide(dialog.message), leaving=leaving):
            await dialog.dismiss()
            note(f"A dialog asked {said}; the user did not agree to it, so it was dismissed.")
            return
        await dialog.accept()
        if dialog.type != "beforeunload":
            note(f"A dialog said {said}; it was accepted.")
    except PlaywrightError:  # gone with its page
        pass
