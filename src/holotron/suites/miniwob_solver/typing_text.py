"""Fields to fill: text copied from the goal or read off the page, sometimes after a little thought."""

from __future__ import annotations

import re
from datetime import datetime

from holotron.suites.miniwob_solver.moves import click, complete, fill, first, press_submit
from holotron.suites.miniwob_solver.page import Page
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import ordinal, parse, quoted
from holotron.types import Action


def answer(page: Page, content: str, *, read: str = "") -> Action:
    """One text field, one submit button."""
    return first(fill(page, page.get("input"), content, read=read), press_submit(page))


@solves("enter-text", "enter-text-dynamic")
def enter_text(goal: str, page: Page) -> Action:
    return answer(page, quoted(goal)[0])


@solves("enter-text-2")
def enter_text_in_case(goal: str, page: Page) -> Action:
    text = quoted(goal)[0]
    return answer(page, text.upper() if "upper case" in goal else text.lower())


@solves("enter-password")
def enter_password_twice(goal: str, page: Page) -> Action:
    password = quoted(goal)[0]
    fields = page.all("input")
    return first(fill(page, fields[0], password), fill(page, fields[1], password), press_submit(page))


@solves("login-user", "login-user-popup")
def log_in(goal: str, page: Page) -> Action:
    user, password = quoted(goal)
    cancel = page.find("button", id="popup-cancel")
    if cancel is not None:
        return click(page, cancel)
    return first(
        fill(page, page.get("input", id="username"), user),
        fill(page, page.get("input", id="password"), password),
        press_submit(page, "Login", "OK"),
    )


@solves("enter-date")
def enter_date(goal: str, page: Page) -> Action:
    """Date and time fields are written in the one format they hold: 2017-10-20, 14:30."""
    (date,) = parse(goal, r"Enter (\d+/\d+/\d+)")
    return answer(page, datetime.strptime(date, "%m/%d/%Y").strftime("%Y-%m-%d"))


@solves("enter-time")
def enter_time(goal: str, page: Page) -> Action:
    time, half = parse(goal, r"Enter (\d+:\d+)\s?([AP]M)")
    return answer(page, datetime.strptime(time + half, "%I:%M%p").strftime("%H:%M"))


# ------------------------------------------------------------------------------------------ read it off the page


@solves("text-transform")
def read_distorted_letters(goal: str, page: Page) -> Action:
    return answer(page, page.get(id="captcha").text)


@solves("find-word")
def nth_word(goal: str, page: Page) -> Action:
    (position,) = parse(goal, r"Find the (\w+) word")
    words = [re.sub(r"[^a-zA-Z]", "", word) for word in page.get("p").text.split()[: ordinal(position)]]
    return answer(page, words[-1], read=numbered(words))


def numbered(words: list[str]) -> str:
    """How one counts words: with a finger on each."""
    return " ".join(f"{n} {word}" for n, word in enumerate(words, start=1))


def _table(page: Page) -> dict[str, str]:
    cells = [cell.text for cell in page.all("td")]
    return dict(zip(cells[::2], cells[1::2], strict=True))


@solves("read-table")
def read_table(goal: str, page: Page) -> Action:
    (name,) = parse(goal, r"the value of (.*) into")
    value = _table(page)[name]
    return answer(page, value, read=f"{name} {value}")


@solves("read-table-2")
def read_table_twice(goal: str, page: Page) -> Action:
    table = _table(page)
    labels = [label.text.removesuffix(":") for label in page.all("label")]
    fields = page.all("input")
    moves = [
        fill(page, field, table[label], read=f"{label} {table[label]}")
        for field, label in zip(fields, labels, strict=True)
    ]
    return first(*moves, press_submit(page))


@solves("simple-arithmetic")
def arithmetic(goal: str, page: Page) -> Action:
    a, sign, b = parse(page.get(id="math-problem").text, r"(\d+) ([-+x]) (\d+)")
    results = {"+": int(a) + int(b), "-": int(a) - int(b), "x": int(a) * int(b)}
    return answer(page, str(results[sign]), read=f"{a} {sign} {b}")


@solves("simple-algebra")
def algebra(goal: str, page: Page) -> Action:
    a, sign, b, total = parse(page.get(id="math-problem").text, r"(\w+) ([-+]) (\w+) = (\d+)")
    digit = int(b if a == "x" else a)
    if sign == "+":
        x = int(total) - digit
    else:
        x = int(total) + digit if a == "x" else digit - int(total)
    return answer(page, str(x), read=f"{a} {sign} {b} = {total}")


@solves("visual-addition")
def count_blocks(goal: str, page: Page) -> Action:
    groups = [len(page.all(css="addition-block", within=page.get(id=name))) for name in ("visual-1", "visual-2")]
    return answer(page, str(sum(groups)), read=" + ".join(map(str, groups)))


# ------------------------------------------------------------------------------------------- labels and their fields


@solves("multi-layouts", "multi-orderings")
def search_movies(goal: str, page: Page) -> Action:
    genre, director, year = parse(goal, r"Search for (.*) movies directed by (.*) from year (\d+)")
    contents = {"Genre": genre, "Director": director, "Year": year, "Date": year}
    moves = []
    for field in page.all("input"):
        # The label stands in the same row; rows are the smallest boxes that hold any text.
        row = next(a for a in page.ancestors(field) if a.text)
        word = next(w for w in contents if w in row.text)
        moves.append(fill(page, field, contents[word]))
    return first(*moves, click(page, page.all(where=lambda e: e.text in ("Submit", "Search", "Go!"))[-1]))


@solves("search-engine")
def search_and_click_result(goal: str, page: Page) -> Action:
    query, position = parse(goal, r'enter "(.*)" and press .* click the (\w+) search result')
    field = page.get("input", id="search-text")
    results = page.all("a", css="search-title")
    # Results of another search are numbered -1; on the screen they are those of the text searched for before.
    if not results or field.value != query or results[0].attributes["data-result"] == "-1":
        return first(fill(page, field, query), press_submit(page, "Search"))
    wanted_page, place = divmod(ordinal(position) - 1, 3)
    current = page.get("li", css="active")
    if current.text == str(wanted_page + 1):
        return click(page, results[place])
    return click(page, page.get("a", text=str(wanted_page + 1)))


# --------------------------------------------------------------------------------------------------- with a proposal


@solves("use-autocomplete", "use-autocomplete-nodelay")
def complete_country(goal: str, page: Page) -> Action:
    start, *rest = quoted(goal)
    end = rest[0] if rest else ""
    field = page.get("input")

    def fits(entry: str) -> bool:
        return entry.startswith(start) and entry.endswith(end)

    return first(complete(page, field, start, fits), press_submit(page))
