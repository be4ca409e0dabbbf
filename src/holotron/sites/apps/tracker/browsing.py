"""Finding issues: start page, list with filters, sorting and bulk edit, and the board."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.tracker.app import app
from holotron.sites.apps.tracker.data import PRIORITIES, QUICK, STATUSES
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

SORTS = {
    "new": "created desc, id desc",
    "old": "created, id",
    "due": "due = '', due, id",
    "title": "title",
}
FILTERS = ("project", "status", "assignee", "priority", "label")
ISSUES_PER_PAGE = 8
ISSUES = (
    "select i.*, u.name assigned, m.name milestone_name, p.name project_name from issues i "
    "left join users u on u.id = i.assignee left join milestones m on m.id = i.milestone "
    "join projects p on p.id = i.project"
)

Options = list[tuple[Any, str]]


def options(visit: Visit, field: str, project: int = 0) -> Options:
    """What a field may hold, with the words for it."""
    t, state = visit.t, visit.state
    if field in ("status", "priority"):
        return [(key, t(key)) for key in (STATUSES if field == "status" else PRIORITIES)]
    if field == "assignee":
        return [(0, t("nobody")), *((row["id"], row["name"]) for row in state.all("select * from users order by name"))]
    if field == "milestone":
        found = state.all("select * from milestones where project = ? and closed = 0 order by due", project)
        return [(0, t("none")), *((row["id"], row["name"]) for row in found)]
    return [(row["id"], row["name"]) for row in state.all(f"select * from {field}s order by name")]


def blocker(visit: Visit, issue: Row) -> Row | None:
    """What keeps an issue from being done."""
    return visit.state.one(
        "select b.* from links l join issues b on b.id = l.issue where l.kind = 'blocks' and l.other = ? and "
        "b.status != 'done' order by b.id",
        issue["id"],
    )


def change(visit: Visit, issue: Row, field: str, value: str) -> bool:
    """Set one of the quick fields, if it may hold this."""
    allowed = {str(key) for key, _ in options(visit, field, issue["project"])}
    if value not in allowed:
        raise NotFound(f"{field} cannot be {value!r}")
    stands_in_the_way = blocker(visit, issue) if field == "status" and value == "done" else None
    if stands_in_the_way:
        visit.flash(visit.t("blocked", issue=issue["key"], other=stands_in_the_way["key"]), "bad")
        return False
    stored = int(value) if field in ("assignee", "milestone") else value
    visit.state.run(f"update issues set {field} = ? where id = ?", stored, issue["id"])
    return True


@app.get("/")
def home(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    mine = visit.state.all(
        f"{ISSUES} where i.assignee = ? and i.status != 'done' order by i.id desc limit 5", user["id"]
    )
    projects = visit.state.all(
        "select p.*, (select count(*) from issues where project = p.id and status != 'done') open from projects p"
    )
    return visit.page("home.html", mine=mine, projects=projects)


@app.get("/issues")
def issues(visit: Visit) -> HttpResponse:
    visit.need_user()
    exact = visit.state.one("select * from issues where key = ?", visit.text("q").upper())
    if exact:
        return visit.redirect(f"/issue/{exact['id']}")
    conditions, values = ["1"], []
    for field in FILTERS[:4]:
        if asked := visit.text(field):
            conditions.append(f"i.{field} = ?")
            values.append(asked)
    if visit.number("label", 0):
        conditions.append("exists (select 1 from issue_labels where issue = i.id and label = ?)")
        values.append(visit.text("label"))
    if visit.number("milestone", 0):
        conditions.append("i.milestone = ?")
        values.append(visit.text("milestone"))
    for word in visit.text("q").lower().split():
        conditions.append("lower(i.key || ' ' || i.title) like ?")
        values.append(f"%{word}%")
    sort = visit.text("sort") if visit.text("sort") in SORTS else "new"
    found = visit.state.all(
        f"select * from ({ISSUES} where {' and '.join(conditions)}) order by {SORTS[sort]}", *values
    )
    project = visit.number("project", 0)
    milestone = visit.state.one("select * from milestones where id = ?", visit.number("milestone", 0))
    return visit.page(
        "issues.html",
        split=visit.split(found, ISSUES_PER_PAGE),
        filters=[(field, options(visit, field)) for field in FILTERS],
        changes=[(field, options(visit, field, milestone["project"] if milestone else project)) for field in QUICK],
        milestone=milestone,
        sort=sort,
        sorts=SORTS,
    )


@app.post("/issues")
def change_many(visit: Visit) -> HttpResponse:
    visit.need_user()
    chosen = [int(name[5:]) for name in visit.form if name.startswith("pick-") and name[5:].isdigit()]
    wanted = {field: visit.text(field) for field in QUICK if visit.text(field) != ""}
    back = f"/issues?{visit.text('back')}"
    if not chosen or not wanted:
        visit.flash(visit.t("nothing_chosen"), "bad")
        return visit.redirect(back)
    found = [visit.state.get("select * from issues where id = ?", id) for id in chosen]
    changed = {issue["id"] for issue in found for field, value in wanted.items() if change(visit, issue, field, value)}
    visit.flash(visit.t("changed_count", count=len(changed)))
    return visit.redirect(back)


@app.get("/board")
def board(visit: Visit) -> HttpResponse:
    visit.need_user()
    projects = visit.state.all("select * from projects order by id")
    asked = visit.number("project", projects[0]["id"])
    project = visit.state.get("select * from projects where id = ?", asked)
    cards = visit.state.all(f"{ISSUES} where i.project = ? order by i.id", project["id"])
    columns = [(status, [card for card in cards if card["status"] == status]) for status in STATUSES]
    column = visit.text("column") if visit.text("column") in STATUSES else STATUSES[0]
    return visit.page("board.html", projects=projects, project=project, columns=columns, column=column)


@app.post("/board")
def move(visit: Visit) -> HttpResponse:
    """A card was dropped on a column, or one of its arrows used."""
    visit.need_user()
    by_arrow = visit.text("move").partition(":")
    issue_id, status = (by_arrow[0], by_arrow[2]) if by_arrow[1] else (visit.text("issue"), visit.text("status"))
    issue = visit.state.get("select * from issues where id = ?", issue_id)
    change(visit, issue, "status", status)
    shown = f"&column={visit.text('column')}" if visit.text("column") in STATUSES else ""
    return visit.redirect(f"/board?project={issue['project']}{shown}")
