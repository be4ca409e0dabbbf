"""Milestones: how far each is, making one, closing one when nothing in it is open."""

from __future__ import annotations

from holotron.sites.apps.tracker.app import app
from holotron.sites.apps.tracker.issue import check_date
from holotron.sites.http import HttpResponse
from holotron.sites.web import Visit


@app.get("/milestones")
def milestones(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _page(visit)


def _page(visit: Visit) -> HttpResponse:
    projects = visit.state.all("select * from projects order by id")
    project = visit.state.get("select * from projects where id = ?", visit.number("project", projects[0]["id"]))
    found = visit.state.all(
        "select m.*, (select count(*) from issues where milestone = m.id) count, "
        "(select count(*) from issues where milestone = m.id and status = 'done') done "
        "from milestones m where project = ? order by closed, due, id",
        project["id"],
    )
    return visit.page("milestones.html", projects=projects, project=project, milestones=found)


@app.post("/milestones")
def create(visit: Visit) -> HttpResponse:
    visit.need_user()
    project = visit.state.get("select * from projects where id = ?", visit.number("project"))
    visit.require("name")
    check_date(visit, "due", needed=True)
    if visit.state.one("select * from milestones where project = ? and name = ?", project["id"], visit.text("name")):
        visit.errors["name"] = visit.t("name_taken")
    if visit.errors:
        return _page(visit)
    visit.state.add("milestones", project=project["id"], name=visit.text("name"), due=visit.text("due"), closed=0)
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/milestones?project={project['id']}")


@app.post("/milestones/<id>/close")
def close(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    milestone = visit.state.get("select * from milestones where id = ?", id)
    left = visit.state.value("select count(*) from issues where milestone = ? and status != 'done'", id)
    if left:
        visit.flash(visit.t("milestone_open", name=milestone["name"], count=left), "bad")
    else:
        visit.state.run("update milestones set closed = 1 where id = ?", id)
    return visit.redirect(f"/milestones?project={milestone['project']}")
