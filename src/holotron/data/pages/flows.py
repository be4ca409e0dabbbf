"""Short episodes: pages that react, a goal, and the moves that reach it.

A flow says what to do by the keys of elements, never by coordinates. The player (`holotron.data.render`) looks up where
each element is on the screen at that moment, acts with mouse and keyboard, and keeps the episode only if the page
itself has noted down what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any, Literal

from holotron.data.pages.blocks import BLOCKS
from holotron.data.pages.frames import side_bar, top_bar
from holotron.data.pages.kit import Kit, div, flag, span, tag

_BEHAVIOUR = (files(__package__) / "assets" / "behaviour.js").read_text()
_AROUND = ("paragraph", "lines", "links", "facts", "toolbar", "figures", "breadcrumbs", "notice")  # cannot interfere


@dataclass(frozen=True, slots=True)
class Move:
    kind: Literal["click", "write"]
    key: str  # of the element; a text is written into the field that has the focus
    text: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    body: str
    goal: str
    moves: tuple[Move, ...]
    outcome: Any  # what the page has noted down when the goal is reached


Maker = Callable[[Kit], Flow]


@dataclass(frozen=True, slots=True)
class FlowKind:
    make: Maker
    width: float  # ems


FLOWS: dict[str, FlowKind] = {}


def flow(width: float) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        FLOWS[make.__name__] = FlowKind(make, width)
        return make

    return register


def make_flow(kit: Kit, name: str) -> Flow:
    """The named flow, with other content around it where there is room."""
    made = FLOWS[name].make(kit)
    parts = [made.body]
    for _ in range(2 if kit.height > 400 else 1):
        around = BLOCKS[kit.rng.choice(_AROUND)]
        if kit.fits(around.width) and kit.chance(0.6):
            place = kit.rng.randint(0, 1) if kit.height > 300 else len(parts)
            parts.insert(place, around.make(replace(kit, height=kit.height / 3)))
    body = div("col apart inset", *parts)
    if kit.width > 420 and kit.chance(0.6):
        body = top_bar(kit) + div("row full tight", side_bar(kit, kit.width * 0.2), div("grow", body))
    return replace(made, body=f"{body}<script>{_BEHAVIOUR}</script>")


def _does(**what: object) -> dict[str, Any]:
    """Attributes of something that reacts to clicks."""
    return {"data_does": True, **{f"data_{name}": value for name, value in what.items()}}


def _clicks(*keys: str) -> tuple[Move, ...]:
    return tuple(Move("click", key) for key in keys)


def _form(kit: Kit, name: str, *rows: str, id: str) -> str:
    return div("col", *rows, div("", kit.button(name, main=True, key="submit", **_does(submit=id))), id=id)


def _listed(texts: list[str]) -> str:
    quoted = [f'"{text}"' for text in texts]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


# -------------------------------------------------------------------------------------------------------------- forms


@flow(10)
def fill_form(kit: Kit) -> Flow:
    id, name, above = kit.id(), kit.words.label(2), kit.chance(0.5)
    labels = [kit.words.label(2) for _ in range(kit.rng.randint(1, 3))]
    asked = sorted(kit.rng.sample(range(len(labels)), kit.rng.randint(1, min(2, len(labels)))))
    texts = {i: kit.words.entry() for i in asked}
    rows = []
    for i, label in enumerate(labels):
        field = kit.id()
        rows.append(kit.labelled(label, kit.input(id=field, key=f"field{i}"), field, above=above))
    told = ", ".join(f'type "{texts[i]}" into the field "{labels[i]}"' for i in asked)
    moves = [move for i in asked for move in (Move("click", f"field{i}"), Move("write", f"field{i}", texts[i]))]
    return Flow(
        body=_form(kit, name, *rows, id=id),
        goal=f'{told[0].upper()}{told[1:]}, then press "{name}".',
        moves=(*moves, *_clicks("submit")),
        outcome={f"field{i}": texts.get(i, "") for i in range(len(labels))},
    )


@flow(8)
def tick_boxes(kit: Kit) -> Flow:
    name = kit.words.label(1)
    labels = [kit.words.label(2) for _ in range(kit.count(3, 6, 2))]
    wanted = sorted(kit.rng.sample(range(len(labels)), kit.rng.randint(1, min(3, len(labels) - 1))))
    boxes = [kit.choice("checkbox", label, key=f"box{i}") for i, label in enumerate(labels)]
    return Flow(
        body=_form(kit, name, *boxes, id=kit.id()),
        goal=f'Select {_listed([labels[i] for i in wanted])} and click "{name}".',
        moves=_clicks(*(f"box{i}" for i in wanted), "submit"),
        outcome={f"box{i}": i in wanted for i in range(len(labels))},
    )


@flow(8)
def pick_radio(kit: Kit) -> Flow:
    name, group = kit.words.label(1), kit.id()
    labels = [kit.words.label(2) for _ in range(kit.count(3, 6, 2))]
    wanted = kit.rng.randrange(len(labels))
    boxes = [kit.choice("radio", label, name=group, key=f"option{i}") for i, label in enumerate(labels)]
    return Flow(
        body=_form(kit, name, *boxes, id=kit.id()),
        goal=f'Choose "{labels[wanted]}" and press "{name}".',
        moves=_clicks(f"option{wanted}", "submit"),
        outcome={f"option{i}": i == wanted for i in range(len(labels))},
    )


@flow(12)
def set_switches(kit: Kit) -> Flow:
    name = kit.words.label(2)
    labels = [kit.words.label(2) for _ in range(kit.count(2, 5, 2.5))]
    states = [kit.chance(0.4) for _ in labels]
    changed = sorted(kit.rng.sample(range(len(labels)), kit.rng.randint(1, 2)))
    rows = []
    for i, label in enumerate(labels):
        switch = kit.switch(label, states[i], key=f"switch{i}", **_does())
        rows.append(div("row line", span(label, "grow cut"), switch, item=label))
    told = " and ".join(f'turn {"off" if states[i] else "on"} "{labels[i]}"' for i in changed)
    return Flow(
        body=_form(kit, name, *rows, id=kit.id()),
        goal=f'{told[0].upper()}{told[1:]}, then click "{name}".',
        moves=_clicks(*(f"switch{i}" for i in changed), "submit"),
        outcome={f"switch{i}": states[i] != (i in changed) for i in range(len(labels))},
    )


@flow(9)
def dropdown(kit: Kit) -> Flow:
    """A list to choose from. Until a choice is made it lies over the button below, as it does on real pages."""
    shown, menu, name, label = kit.id(), kit.id(), kit.words.label(1), kit.words.label(2)
    options = [kit.words.label(2) for _ in range(kit.count(2, 6, 3))]
    wanted = kit.rng.randrange(len(options))
    text = span(kit.words.label(1), "grow cut", id=shown)
    box = div("fld row", text, kit.mark(True), role="combobox", named=label, key="choice", aria_expanded="false",
              **_does(toggle=menu))  # fmt: skip
    rows = [
        div("it", escape(option), role="option", key=f"option{i}", **_does(put=f"{shown}={option}", hide=menu))
        for i, option in enumerate(options)
    ]
    listing = div("pop hide", *rows, id=menu, style="width:10em;max-width:100%;z-index:3")
    field = div("", escape(label), role="label") + div("", box, listing, style="position:relative")
    return Flow(
        body=_form(kit, name, field, id=kit.id()),
        goal=f'Choose "{options[wanted]}" from "{label}" and press "{name}".',
        moves=_clicks("choice", f"option{wanted}", "submit"),
        outcome={"choice": options[wanted]},
    )


@flow(11)
def choose_day(kit: Kit) -> Flow:
    shown, panel, name, label = kit.id(), kit.id(), kit.words.label(1), kit.words.label(2)
    start, days, wanted = kit.rng.randrange(7), kit.rng.choice((28, 30, 31)), kit.rng.randint(1, 28)
    month = f"{kit.words.label(1)} {kit.rng.randint(1990, 2040)}"
    size = min(kit.style.size * 2, (kit.width - 4 * kit.style.gap) / 7)
    cell = f"width:{size:.2f}px;text-align:center"
    blank = [span("", style=cell) for _ in range(start)]
    numbers = [
        span(str(day), "hand", role="day", key=f"day{day}", style=cell, **_does(put=f"{shown}={day}", hide=panel))
        for day in range(1, days + 1)
    ]
    grid = div("", *blank, *numbers, style=f"display:flex;flex-wrap:wrap;width:{7 * size + 0.1:.2f}px")
    text = span(kit.words.date(), "grow", id=shown)
    box = div("fld row", text, kit.icon("calendar", 1), role="combobox", named=label, key="date", **_does(toggle=panel))
    calendar = div("card hide", div("b middle", escape(month)), grid, id=panel, style="width:fit-content;padding:3px")
    return Flow(
        body=_form(kit, name, div("", escape(label), role="label"), box, calendar, id=kit.id()),
        goal=f'Set "{label}" to day {wanted} and click "{name}".',
        moves=_clicks("date", f"day{wanted}", "submit"),
        outcome={"date": str(wanted)},
    )


# ------------------------------------------------------------------------------------------------ opening and choosing


@flow(8)
def open_menu(kit: Kit) -> Flow:
    first, second, title = kit.id(), kit.id(), kit.words.label(1)
    entries = [kit.words.label(2) for _ in range(kit.count(2, 5, 3))]
    inner = [kit.words.label(2) for _ in range(kit.rng.randint(2, 4))]
    nested = kit.fits(15) and kit.chance(0.4)
    parent = kit.rng.randrange(len(entries)) if nested else -1
    wanted = kit.rng.randrange(len(inner if nested else entries))
    close = f"{first} {second}"
    rows = []
    for i, entry in enumerate(entries):
        more = tag("span", kit.mark(False), css="end") if i == parent else ""
        does = _does(show=second) if i == parent else _does(log=entry, hide=close)
        rows.append(div("it", span(entry), more, role="menuitem", key=f"entry{i}", **does))
    deeper = [
        div("it", escape(entry), role="menuitem", key=f"inner{i}", **_does(log=entry, hide=close))
        for i, entry in enumerate(inner)
    ]
    menus = div("row top tight", div("pop still hide", *rows, id=first), div("pop still hide", *deeper, id=second))
    by_icon = kit.chance(0.3)
    opener = kit.icon_button("menu", key="menu", **_does(toggle=first))
    if not by_icon:
        opener = kit.button(title, key="menu", **_does(toggle=first))
    path = f'"{entries[parent]}", then "{inner[wanted]}"' if nested else f'"{entries[wanted]}"'
    return Flow(
        body=div("", opener, menus, style="align-self:flex-start"),
        goal=f'Open the {"menu" if by_icon else f"""menu "{title}" """.strip()} and choose {path}.',
        moves=_clicks("menu", *((f"entry{parent}", f"inner{wanted}") if nested else (f"entry{wanted}",))),
        outcome=inner[wanted] if nested else entries[wanted],
    )


@flow(10)
def tab_then_link(kit: Kit) -> Flow:
    names = [kit.words.label(1) for _ in range(3 if kit.fits(22) else 2)]
    ids = [kit.id() for _ in names]
    now, wanted = kit.rng.sample(range(len(names)), 2)
    panels, heads, chosen = [], [], ""
    for i, id in enumerate(ids):
        texts = [kit.words.label(2) for _ in range(kit.rng.randint(1, 4))]
        picked = kit.rng.randrange(len(texts)) if i == wanted else -1
        chosen = texts[picked] if i == wanted else chosen
        links = [
            div("", kit.link(text, key="target" if n == picked else "", **_does(log=text)))
            for n, text in enumerate(texts)
        ]
        panels.append(div("" if i == now else "hide", tag("p", escape(kit.words.sentence(4))), *links, id=id))
        heads.append(div("tab on" if i == now else "tab", escape(names[i]), role="tab", aria_selected=flag(i == now),
                         key=f"tab{i}", **_does(only=id, mark=True)))  # fmt: skip
    return Flow(
        body=div("", div("tabs", *heads), div("halfset", *panels)),
        goal=f'Switch to the tab "{names[wanted]}" and click the link "{chosen}".',
        moves=_clicks(f"tab{wanted}", "target"),
        outcome=chosen,
    )


@flow(9)
def unfold(kit: Kit) -> Flow:
    names = [kit.words.label(2) for _ in range(kit.count(2, 4, 3.5))]
    texts = [kit.words.label(2) for _ in names]
    wanted = kit.rng.randrange(len(names))
    rows = []
    for i, (name, text) in enumerate(zip(names, texts, strict=True)):
        id, make = kit.id(), kit.rng.choice((kit.button, kit.link))
        rows.append(div("it line", kit.mark(False), span(name), role="button", aria_expanded="false", key=f"section{i}",
                        **_does(toggle=id)))  # fmt: skip
        rows.append(div("halfset hide", make(text, key=f"inner{i}", **_does(log=text)), id=id))
    return Flow(
        body=div("card flush", *rows),
        goal=f'Expand "{names[wanted]}" and click "{texts[wanted]}".',
        moves=_clicks(f"section{wanted}", f"inner{wanted}"),
        outcome=texts[wanted],
    )


@flow(9)
def open_folder(kit: Kit) -> Flow:
    folders = [kit.words.label(1) for _ in range(kit.count(2, 4, 4))]
    wanted, rows, chosen = kit.rng.randrange(len(folders)), [], ""
    for i, folder in enumerate(folders):
        id, names = kit.id(), [kit.words.label(1) for _ in range(kit.rng.randint(1, 3))]
        picked = kit.rng.randrange(len(names)) if i == wanted else -1
        chosen = names[picked] if i == wanted else chosen
        rows.append(div("row hand snug", kit.icon("folder", 1), span(folder), role="treeitem", aria_expanded="false",
                        key=f"folder{i}", **_does(toggle=id)))  # fmt: skip
        inner = []
        for n, name in enumerate(names):
            key = "target" if n == picked else ""
            inner.append(
                div("row hand snug", kit.icon("file", 1), span(name), role="treeitem", key=key, **_does(log=name))
            )
        rows.append(div("hide", *inner, id=id, style="margin-left:1.3em"))
    return Flow(
        body=div("", *rows),
        goal=f'Open the folder "{folders[wanted]}" and select "{chosen}".',
        moves=_clicks(f"folder{wanted}", "target"),
        outcome=chosen,
    )


@flow(11)
def search_then_open(kit: Kit) -> Flow:
    id, query, label = kit.id(), kit.words.word(), kit.words.label(1)
    titles = [kit.words.label(3) for _ in range(kit.count(2, 4, 3))]
    wanted = kit.rng.randrange(len(titles))
    go = kit.icon_button("search", "framed", key="go", **_does(show=id))
    if kit.chance(0.5):
        go = kit.button(label, key="go", **_does(show=id))
    rows = []
    for i, title in enumerate(titles):
        text = div("m s", escape(kit.words.sentence(4)))
        rows.append(div("", kit.link(title, key=f"result{i}", **_does(log=title)), text))
    bar = div("row", kit.input(named=label, style="flex:1;min-width:0", key="query"), go)
    return Flow(
        body=div("col", bar, div("col hide", *rows, id=id)),
        goal=f'Search for "{query}" and open the {("first", "second", "third", "fourth")[wanted]} result.',
        moves=(*_clicks("query"), Move("write", "query", query), *_clicks("go", f"result{wanted}")),
        outcome=titles[wanted],
    )


# ----------------------------------------------------------------------------------------------------- asking back


def _question(kit: Kit, id: str, yes: str, no: str, subject: str) -> str:
    agree = kit.button(yes, main=True, key="yes", **_does(log=f"{yes}: {subject}", hide=id))
    refuse = kit.button(no, key="no", **_does(log=f"{no}: {subject}", hide=id))
    answers = (agree, refuse) if kit.chance(0.5) else (refuse, agree)
    width = min(kit.width * 0.85, kit.style.size * 22)
    text = tag("p", escape(kit.words.sentence(5)))
    return div(
        "veil hide", div("card", text, div("row wrap", *answers), role="dialog", style=f"width:{width:g}px"), id=id
    )


@flow(10)
def confirm(kit: Kit) -> Flow:
    """Press a button; a dialog asks back."""
    id, name = kit.id(), kit.words.label(2)
    yes, no = kit.words.label(1), kit.words.label(1)
    others = [kit.button() for _ in range(kit.rng.randint(0, 2))]
    opener = kit.button(name, key="open", **_does(show=id))
    agree = kit.chance(0.7)
    answer = yes if agree else no
    return Flow(
        body=div("", div("row wrap", *others, opener), _question(kit, id, yes, no, name)),
        goal=f'Click "{name}" and answer "{answer}".',
        moves=_clicks("open", "yes" if agree else "no"),
        outcome=f"{answer}: {name}",
    )


@flow(14)
def row_action(kit: Kit) -> Flow:
    """A row's own menu, an entry of it, and the question whether one is sure."""
    names = [kit.words.label(2) for _ in range(kit.count(2, 5, 3))]
    actions = [kit.words.label(1) for _ in range(3)]
    wanted, action, ask = kit.rng.randrange(len(names)), kit.rng.randrange(3), kit.chance(0.6)
    yes, no, question = kit.words.label(1), kit.words.label(1), kit.id()
    rows = []
    for i, name in enumerate(names):
        menu = kit.id()
        entries = []
        for n, entry in enumerate(actions):
            asks = ask and (i, n) == (wanted, action)
            does = _does(show=question, hide=menu) if asks else _does(log=f"{entry}: {name}", hide=menu)
            entries.append(div("it", escape(entry), role="menuitem", key=f"entry{i}-{n}", **does))
        popup = div("pop hide", *entries, id=menu, style="right:2px;top:100%;z-index:3")
        more = kit.icon_button("more", "end", key=f"more{i}", **_does(toggle=menu))
        rows.append(div("row line", span(name, "cut"), more, popup, item=name, style="position:relative"))
    goal = f'Open the menu of "{names[wanted]}" and choose "{actions[action]}"'
    return Flow(
        body=div("", *rows, _question(kit, question, yes, no, names[wanted]) if ask else ""),
        goal=f'{goal}, then confirm with "{yes}".' if ask else f"{goal}.",
        moves=_clicks(f"more{wanted}", f"entry{wanted}-{action}", *(("yes",) if ask else ())),
        outcome=f"{yes}: {names[wanted]}" if ask else f"{actions[action]}: {names[wanted]}",
    )
