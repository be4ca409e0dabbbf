"""How the solver works in the tracker. Every function looks at the page and the state as they are and gives the next
action, or None when there is nothing left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holotron.sites.apps.tracker.data import QUICK, STATUSES
from holotron.sites.solver.view import PageView
from holotron.sites.state import Row
from holotron.types import Action

Fields = Mapping[str, Any]  # column -> what it has to hold


# ---------------------------------------------------------------------------------------------------- going somewhere


def to_issue(view: PageView, issue: Row) -> Action | None:
    name = f"issue:{issue['id']}"
    if view.page == name:
        return None
    return view.click(name) if view.has(name) else view.search(issue["key"])


def to_project(view: PageView, place: str, project: int) -> Action | None:
    """The board or the milestones of one project."""
    if view.page == f"{place}:{project}":
        return None
    return view.click(f"project:{project}" if view.page.startswith(f"{place}:") else f"go:{place}")


def by_id(view: PageView, id: int) -> Row:
    return view.state.get("select * from issues where id = ?", id)


# ------------------------------------------------------------------------------------------------------- doing things


def written(view: PageView, field: str, value: Any) -> str:
    """What the list of a field calls this value."""
    if field in ("status", "priority"):
        return view.t(value)
    if not value:
        return view.t("nobody" if field == "assignee" else "none")
    table = {"assignee": "users", "milestone": "milestones", "project": "projects", "label": "labels"}[field]
    name: str = view.state.value(f"select name from {table} where id = ?", value)
    return name


def have(view: PageView, id: int, fields: Fields) -> Action | None:
    """These values in an issue's quick fields."""
    issue = by_id(view, id)
    for field, value in fields.items():
        if issue[field] != value:
            return to_issue(view, issue) or view.choose(f"set:{field}", written(view, field, value))
    return None


def tidy(view: PageView) -> Action | None:
    """Undo what was changed by mistake."""
    for change in view.strays("issues"):
        if change.before is None or change.after is None:
            continue  # a new issue stays
        wrong = {
            field: change.before[field]
            for field in QUICK
            if field in change.columns and change.after[field] != _aim(view, change.id, field)
        }
        if wrong and (move := have(view, change.id, wrong)):
            return move
    for change in view.strays("issue_labels", "links"):
        row = change.after
        if row is None or change.before is not None:
            continue  # what was taken off cannot come back as the same row
        issue = by_id(view, row["issue"])
        if change.table == "links":
            return to_issue(view, issue) or view.click(f"unlink:{change.id}")
        return to_issue(view, issue) or view.tick(f"label:{row['label']}", False) or view.click("save-labels")
    return None


def _aim(view: PageView, id: int, field: str) -> Any:
    """What the task wants there, for issues that it is about."""
    wanted: Fields = view.facts.get("issues", {}).get(id, {})
    return wanted.get(field)


def say(view: PageView, id: int, text: str) -> Action | None:
    """A comment with this text on the issue."""
    if view.state.one("select * from comments where issue = ? and body = ?", id, text):
        return None
    return to_issue(view, by_id(view, id)) or view.fill("field:comment", text) or view.click("comment")


def move_card(view: PageView, issue: Row, status: str) -> Action | None:
    """On the board: drag the card where the window shows both ends, else use its arrows."""
    now = by_id(view, issue["id"])["status"]
    if now == status:
        return None
    if away := to_project(view, "board", issue["project"]):
        return away
    card = f"card:{issue['id']}"
    if not view.has(card):  # a phone shows one column at a time
        return view.click(f"column:{now}")
    dragged = None if view.has(f"shown:{now}") else view.drag(card, f"column:{status}")
    arrow = "on" if STATUSES.index(status) > STATUSES.index(now) else "back"
    return dragged or view.click(f"{arrow}:{issue['id']}")


def narrow(view: PageView, asked: Fields) -> Action | None:
    """The list of issues with these filters."""
    if view.page != "issues" or view.query.get("q") or view.query.get("milestone"):
        return view.click("go:issues")
    if all(view.query.get(field, "") == str(value) for field, value in asked.items()):
        return None
    for field, value in asked.items():
        if move := view.choose(f"filter:{field}", written(view, field, value)):
            return move
    return view.click("filter:go")


def change_many(view: PageView, ids: Sequence[int], field: str, value: Any) -> Action | None:
    """Tick these on the list that is open, and change them together; a page at a time."""
    left = [id for id in ids if by_id(view, id)[field] != value]
    if not left:
        return None
    here = [id for id in left if view.has(f"pick:{id}")]
    if not here:
        return view.click("next" if view.has("next") else "previous")
    for name in view.names("pick:"):
        if move := view.tick(f"pick:{name}", int(name) in here):
            return move
    return view.choose(f"bulk:{field}", written(view, field, value)) or view.click("bulk:go")


# ------------------------------------------------------------------------------------------------- plans of templates


def set_fields(view: PageView) -> Action | None:
    """Quick fields of one or several issues."""
    if move := tidy(view):
        return move
    for id, fields in view.facts["issues"].items():
        if move := have(view, id, fields):
            return move
    return None


def cards(view: PageView) -> Action | None:
    """Cards on the board."""
    if move := tidy(view):
        return move
    for id, fields in view.facts["issues"].items():
        if move := move_card(view, by_id(view, id), fields["status"]):
            return move
    return None


def read(view: PageView) -> Action | None:
    """An answer that stands on an issue's page."""
    return to_issue(view, view.facts["issue"]) or view.read(view.facts["where"], view.facts["answer"])


def comment(view: PageView) -> Action | None:
    return tidy(view) or say(view, view.facts["issue"]["id"], view.facts["text"])


def label(view: PageView) -> Action | None:
    facts = view.facts
    return (
        tidy(view)
        or to_issue(view, facts["issue"])
        or view.tick(f"label:{facts['label']['id']}", facts["on"])
        or view.click("save-labels")
    )


def maybe(view: PageView) -> Action | None:
    """Try it; the tracker says if it cannot be."""
    issue = view.facts["issue"]
    if move := tidy(view) or to_issue(view, issue):
        return move
    if view.facts["blocked"] and view.has("flash") and not view.get("set:status").open:
        return view.read("flash", "impossible")
    return view.choose("set:status", view.t("done"))


def count(view: PageView) -> Action | None:
    """Look at every page of what the filters leave."""
    facts = view.facts
    if move := narrow(view, facts["filters"]):
        return move
    seen = view.memory.setdefault("seen", [])
    for id in view.names("issue:"):
        if id not in seen:
            if move := view.see(f"issue:{id}"):
                return move
            seen.append(id)
    if len(seen) >= facts["number"]:
        return view.answer(str(facts["number"]))
    return view.click("next" if view.has("next") else "previous")


def first_due(view: PageView) -> Action | None:
    facts = view.facts
    if move := narrow(view, facts["filters"]):
        return move
    if view.query.get("sort") != "due":
        return view.choose("sort", view.t("sort_due"))
    if view.query.get("page", "1") != "1":
        return view.click("previous")
    return view.read(f"issue:{facts['issue']['id']}", facts["issue"]["key"])


def create(view: PageView) -> Action | None:
    """What the form rejects is written as the form wants it."""
    new = view.facts["new"]
    if view.page != "new":
        return tidy(view) or view.click("go:new")
    due = new["due"] if view.has("wrong:due") else new["due_as_written"]
    return (
        view.choose("field:project", written(view, "project", new["project"]))
        or view.choose("field:priority", view.t(new["priority"]))
        or view.fill("field:title", new["title"])
        or view.fill("field:body", new["body"])
        or view.choose("field:assignee", written(view, "assignee", new["assignee"]))
        or (None if view.get("field:due").value == new["due"] else view.fill("field:due", due))
        or view.click("save")
    )


def link(view: PageView) -> Action | None:
    """The other issue is known by its title: find its key first."""
    issue, other, kind = view.facts["issue"], view.facts["other"], view.facts["kind"]
    if move := tidy(view):
        return move
    if not view.memory.get("read"):
        if not view.has(f"issue:{other['id']}"):
            return view.search(other["title"])
        if move := view.see(f"issue:{other['id']}"):
            return move
        view.memory["read"] = True
    if view.page != f"link:{issue['id']}":
        return to_issue(view, issue) or view.click("add-link")
    return view.choose("field:kind", view.t(kind)) or view.fill("field:other", other["key"]) or view.click("save")


def recall(view: PageView) -> Action | None:
    """Read the value where it stands, then write it on every issue of the list."""
    facts = view.facts
    if not view.memory.get("read"):
        if move := to_issue(view, facts["source"]) or view.see(f"comment:{facts['comment']}"):
            return move
        view.memory["read"] = True
    if move := tidy(view):
        return move
    for id in facts["targets"]:
        if move := say(view, id, facts["value"]):
            return move
    return None


def milestone(view: PageView) -> Action | None:
    facts = view.facts
    project, new, issue = facts["project"], facts["new"], facts["issue"]
    if move := tidy(view):
        return move
    made = view.state.one("select * from milestones where project = ? and name = ?", project, new["name"])
    if made is None:
        due = new["due"] if view.has("wrong:due") else new["due_as_written"]
        return (
            to_project(view, "milestones", project)
            or view.fill("field:name", new["name"])
            or (None if view.get("field:due").value == new["due"] else view.fill("field:due", due))
            or view.click("create")
        )
    return have(view, issue["id"], {"milestone": made["id"]})


def edit(view: PageView) -> Action | None:
    issue, new = view.facts["issue"], view.facts["new"]
    if view.page != f"edit:{issue['id']}":
        return tidy(view) or to_issue(view, issue) or view.click("edit")
    for name, text in new.items():
        if move := view.fill(f"field:{name}", text):
            return move
    return view.click("save")


def bulk(view: PageView) -> Action | None:
    facts = view.facts
    ids: dict[int, Fields] = facts["issues"]
    ((field, value),) = next(iter(ids.values())).items()
    return tidy(view) or narrow(view, facts["filters"]) or change_many(view, list(ids), field, value)


def clear_milestone(view: PageView) -> Action | None:
    """Everything open goes to another milestone; then the old one can be closed."""
    facts = view.facts
    old, project = facts["old"], facts["project"]
    if move := tidy(view):
        return move
    ids: dict[int, Fields] = facts["issues"]
    left = [id for id, fields in ids.items() if by_id(view, id)["milestone"] != fields["milestone"]]
    if not left:
        return to_project(view, "milestones", project) or view.click(f"close-milestone:{old['id']}")
    if view.page != "issues" or view.query.get("milestone") != str(old["id"]):
        return to_project(view, "milestones", project) or view.click(f"milestone:{old['id']}")
    return change_many(view, list(ids), "milestone", ids[left[0]]["milestone"])
