"""A stream of short posts: press a button on one, some or all posts of somebody."""

from __future__ import annotations

from holotron.suites.miniwob_solver.moves import click, first, first_of, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import parse, quoted
from holotron.types import Action


def _posts_by(page: Page, user: str) -> list[PageElement]:
    return [p for p in page.all(css="media") if page.get(css="username", within=p).text == user]


@solves("social-media")
def act_on_post(goal: str, page: Page) -> Action:
    """Reply, retweet and like are icons; everything else is in the menu behind the dots."""
    (user,) = parse(goal, r"For the user (\S+),")
    name = quoted(goal)[0]
    post = _posts_by(page, user)[0]
    icon = page.find(css=name.lower(), within=post, where=lambda e: e.tag == "span")
    if icon is not None:
        return click(page, icon, element=name)
    entry = page.find("li", within=post, where=lambda e: e.text.startswith(name))
    return click(page, page.get(css="more", within=post), element="more") if entry is None else click(page, entry)


@solves("social-media-all", "social-media-some")
def act_on_posts(goal: str, page: Page) -> Action:
    name = quoted(goal)[0]
    (count, user) = parse(goal, r"on (all|\d+) posts? by (\S+)")
    icons = page.all("span", where=lambda e: e.classes & {"reply", "retweet", "like", "share"} != frozenset())
    right = [page.get(css=name.lower(), within=post) for post in _posts_by(page, user)]
    right = right[: len(right) if count == "all" else int(count)]
    wrong = (i for i in icons if i.has_class("active") != (i in right))
    return first(first_of(click(page, i, element=name) for i in wrong), press_submit(page))
