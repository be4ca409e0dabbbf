"""One issue: its page with comments, labels and links, and the forms that make and change it."""

from __future__ import annotations

import datetime
import re

from holotron.sites.apps.tracker.app import app
from holotron.sites.apps.tracker.browsing import ISSUES, change, options
from holotron.sites.apps.tracker.data import KINDS, PRIORITIES, QUICK
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit


def _issue(visit: Visit, id: int) -> Row:
    return visit.state.get(f"{ISSUES} where i.id = ?", id)


def check_date(visit: Visit, name: str, *, needed: bool = False) -> None:
    """Dates are written in one way only, and lie ahead."""
    text = visit.text(name)
    if not text and not needed:
        return
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError
        day = datetime.date.fromisoformat(text)
    except ValueError:
        visit.errors[name] = visit.t("bad_date")
        return
    if day < visit.episode.variation.today:
        visit.errors[name] = visit.t("past_date")


@app.get("/issue/<id>")
def issue(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return _issue_page(visit, id)


def _issue_page(visit: Visit, id: int) -> HttpResponse:
    found, state = _issue(visit, id), visit.state
    linked = state.all(
        "select l.id, l.kind, o.id other, o.key, o.title, o.status from links l join issues o on o.id = l.other "
        "where l.issue = ? union all "
        "select l.id, case l.kind when 'blocks' then 'blocked_by' when 'duplicates' then 'duplicated_by' else l.kind "
        "end, o.id, o.key, o.title, o.status from links l join issues o on o.id = l.issue where l.other = ?",
        id, id,
    )  # fmt: skip
    return visit.page(
        "issue.html",
        issue=found,
        reporter=state.value("select name from users where id = ?", found["reporter"]),
        fields=[(field, options(visit, field, found["project"])) for field in QUICK],
        labels=state.all(
            "select l.*, exists (select 1 from issue_labels where issue = ? and label = l.id) chosen from labels l", id
        ),
        comments=state.all(
            "select c.*, u.name from comments c join users u on u.id = c.author where issue = ? order by day, c.id", id
        ),
        links=linked,
    )


@app.post("/issue/<id>/set")
def set_field(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    if visit.text("field") not in QUICK:
        raise NotFound(visit.text("field"))
    if change(visit, _issue(visit, id), visit.text("field"), visit.text("value")):
        visit.flash(visit.t("saved"))
    return visit.redirect(f"/issue/{id}")


@app.post("/issue/<id>/labels")
def set_labels(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    _issue(visit, id)
    for label in visit.state.all("select * from labels"):
        there = visit.state.one("select * from issue_labels where issue = ? and label = ?", id, label["id"])
        wanted = f"label-{label['id']}" in visit.form
        if wanted and not there:
            visit.state.add("issue_labels", issue=id, label=label["id"])
        if there and not wanted:
            visit.state.run("delete from issue_labels where id = ?", there["id"])
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/issue/{id}")


@app.post("/issue/<id>/comment")
def comment(visit: Visit, id: int) -> HttpResponse:
    user = visit.need_user()
    _issue(visit, id)
    visit.require("comment")
    if visit.errors:
        return _issue_page(visit, id)
    visit.state.add("comments", issue=id, author=user["id"], body=visit.text("comment"),
                    day=visit.episode.variation.today.isoformat())  # fmt: skip
    return visit.redirect(f"/issue/{id}")


# --------------------------------------------------------------------------------------------------------------- links


@app.get("/issue/<id>/link")
def link_form(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return _link_page(visit, _issue(visit, id))


def _link_page(visit: Visit, issue: Row) -> HttpResponse:
    return visit.page("link.html", issue=issue, kinds=[(kind, visit.t(kind)) for kind in KINDS])


@app.post("/issue/<id>/link")
def add_link(visit: Visit, id: int) -> HttpResponse:
    """Kept in one direction, so that the same link made from either side is the same row."""
    visit.need_user()
    found = _issue(visit, id)
    other = visit.state.one("select * from issues where key = ?", visit.text("other").upper())
    kind = visit.text("kind")
    if kind not in KINDS:
        raise NotFound(kind)
    if other is None:
        visit.errors["other"] = visit.t("no_such_issue")
    elif other["id"] == id:
        visit.errors["other"] = visit.t("link_self")
    if visit.errors or other is None:
        return _link_page(visit, found)
    first, second = (other["id"], id) if kind == "blocked_by" else (id, other["id"])
    if kind == "relates":
        first, second = sorted((first, second))
    kind = "blocks" if kind == "blocked_by" else kind
    if not visit.state.one("select * from links where issue = ? and kind = ? and other = ?", first, kind, second):
        visit.state.add("links", issue=first, kind=kind, other=second)
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/issue/{id}")


@app.post("/link/<id>/delete")
def delete_link(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("delete from links where id = ?", id)
    return visit.redirect(f"/issue/{visit.number('back')}")


# ------------------------------------------------------------------------------------------------------ making, editing


def _form(visit: Visit, issue: Row | None = None) -> HttpResponse:
    t, state = visit.t, visit.state
    projects = [(row["id"], row["name"]) for row in state.all("select * from projects order by id")]
    return visit.page(
        "form.html",
        issue=issue,
        projects=[("", t("please_choose")), *projects],
        priorities=[("", t("please_choose")), *((key, t(key)) for key in PRIORITIES)],
        people=options(visit, "assignee"),
    )


@app.get("/new")
def new(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _form(visit)


@app.post("/new")
def create(visit: Visit) -> HttpResponse:
    user, state = visit.need_user(), visit.state
    visit.require("project", "title", "body", "priority")
    check_date(visit, "due")
    if visit.errors:
        return _form(visit)
    project = state.get("select * from projects where id = ?", visit.number("project"))
    keys = state.all("select key from issues where project = ?", project["id"])
    key = f"{project['key']}-{1 + max(int(row['key'].split('-')[1]) for row in keys)}"
    if visit.text("priority") not in PRIORITIES:
        raise NotFound(visit.text("priority"))
    made = state.add(
        "issues", project=project["id"], key=key, title=visit.text("title"), body=visit.text("body"), status="todo",
        priority=visit.text("priority"), assignee=visit.number("assignee", 0), due=visit.text("due"), milestone=0,
        reporter=user["id"], created=visit.episode.variation.today.isoformat(),
    )  # fmt: skip
    visit.flash(visit.t("created_issue", issue=key))
    return visit.redirect(f"/issue/{made}")


@app.get("/issue/<id>/edit")
def edit(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return _form(visit, _issue(visit, id))


@app.post("/issue/<id>/edit")
def save(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    found = _issue(visit, id)
    visit.require("title", "body")
    if visit.text("due") != found["due"]:
        check_date(visit, "due")
    if visit.errors:
        return _form(visit, found)
    visit.state.run("update issues set title = ?, body = ?, due = ? where id = ?", visit.text("title"),
                    visit.text("body"), visit.text("due"), id)  # fmt: skip
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/issue/{id}")
