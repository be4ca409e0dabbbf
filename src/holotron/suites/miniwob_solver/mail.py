"""The mail program: find a message, then answer, forward, delete or star it."""

from __future__ import annotations

import re

from holotron.suites.miniwob_solver.moves import click, fill, first
from holotron.suites.miniwob_solver.page import Page
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action


def handle_mail(page: Page, task: str, sender: str, to: str = "", message: str = "") -> Action:
    """`task` is reply, forward, delete or star. What is open on the screen says how far we are."""
    if page.find(id="forward") is not None:
        if task != "forward":
            return click(page, page.get(id="close-forward"), element="back")
        field = page.get("input", css="forward-sender")
        return first(fill(page, field, to), click(page, page.get(id="send-forward"), element="send"))
    if page.find(id="reply") is not None:
        if task != "reply":
            return click(page, page.get(id="close-reply"), element="back")
        field = page.get("textarea", id="reply-text")
        return first(fill(page, field, message), click(page, page.get(id="send-reply"), element="send"))

    mail = page.find(id="email")
    if mail is not None:
        if page.get(css="email-sender", within=mail).text != sender:
            return click(page, page.get(id="close-email"), element="back")
        button = {"reply": "email-reply", "forward": "email-forward", "delete": "trash", "star": "star"}[task]
        return click(page, page.get(css=button, within=mail), element=task)

    thread = page.find(css="email-thread", where=lambda e: page.get(css="email-sender", within=e).text == sender)
    if thread is None:
        return click(page, page.get(id="search-cancel"), element="back")
    if task in ("reply", "forward") or page.find(id="main") is None:
        return click(page, page.get(css="email-sender", within=thread))
    return click(page, page.get(css="trash" if task == "delete" else "star", within=thread), element=task)


@solves(
    "email-inbox",
    "email-inbox-delete",
    "email-inbox-forward",
    "email-inbox-important",
    "email-inbox-noscroll",
    "email-inbox-reply",
    "email-inbox-star-reply",
)
def inbox(goal: str, page: Page) -> Action:
    (sender,) = parse(goal, r"Find the email by (.*?) and ")
    if "trash icon" in goal:
        return handle_mail(page, "delete", sender)
    if "star icon" in goal:
        return handle_mail(page, "star", sender)
    if match := re.search(r"forward that email to (.*)\.", goal):
        return handle_mail(page, "forward", sender, to=match[1])
    return handle_mail(page, "reply", sender, message=parse(goal, r'with the text "(.*)"')[0])


@solves(
    "email-inbox-nl-turk",
    "email-inbox-forward-nl",
    "email-inbox-forward-nl-turk",
    question="() => core.currentFields",
)
def inbox_in_free_words(goal: str, page: Page) -> Action:
    """Hundreds of phrasings; the page says which fields it put into the sentence."""
    asked = page.answer
    task = asked.get("task", "forward")
    return handle_mail(page, task, asked["by"], to=asked.get("to", ""), message=asked.get("message", ""))
