"""People: the table of users, one user, invitations, deactivating one or many, roles and what they may do."""

from __future__ import annotations

import re

from holotron.sites.apps.admin.app import app, note
from holotron.sites.apps.admin.data import REASONS, ROLES, STATUSES, TEAMS
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

USERS_PER_PAGE = 8
SORTS = ("name", "joined", "seen")
FILTERS = {"role": ROLES, "team": TEAMS, "status": STATUSES}


def order(visit: Visit, sorts: tuple[str, ...]) -> tuple[str, str]:
    """How a table is sorted: by which column, and which way."""
    key = visit.text("sort") if visit.text("sort") in sorts else sorts[0]
    return key, "desc" if visit.text("dir") == "desc" else "asc"


def setting(visit: Visit, name: str) -> str:
    value: str = visit.state.value("select value from settings where name = ?", name)
    return value


def chosen(visit: Visit) -> list[int]:
    """The ids behind the boxes that are ticked."""
    fields = {**visit.query, **visit.form}
    return [int(name[5:]) for name in fields if name.startswith("pick-") and name[5:].isdigit()]


def _user(visit: Visit, id: int) -> Row:
    return visit.state.get("select * from users where id = ?", id)


@app.get("/users")
def users(visit: Visit) -> HttpResponse:
    visit.need_user()
    conditions, values = ["1"], []
    for field, allowed in FILTERS.items():
        if visit.text(field) in allowed:
            conditions.append(f"{field} = ?")
            values.append(visit.text(field))
    for word in visit.text("q").lower().split():
        conditions.append("lower(name || ' ' || email) like ?")
        values.append(f"%{word}%")
    sort, way = order(visit, SORTS)
    found = visit.state.all(f"select * from users where {' and '.join(conditions)} order by {sort} {way}, id", *values)
    return visit.page("users.html", split=visit.split(found, USERS_PER_PAGE), sort=sort, way=way, sorts=SORTS,
                      filters=FILTERS)  # fmt: skip


@app.get("/user/<id>")
def user(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    roles = [(role, visit.t(role)) for role in ROLES]
    return visit.page("user.html", user=_user(visit, id), roles=roles, teams=[(team, team) for team in TEAMS])


@app.post("/user/<id>")
def save_user(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    found, role, team = _user(visit, id), visit.text("role"), visit.text("team")
    if role not in ROLES or team not in TEAMS:
        raise NotFound(f"role {role!r}, team {team!r}")
    visit.state.run("update users set role = ?, team = ? where id = ?", role, team, id)
    if role != found["role"]:
        note(visit, "role_changed", found["name"])
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/user/{id}")


@app.post("/user/<id>/reactivate")
def reactivate(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    if _user(visit, id)["status"] == "deactivated":
        visit.state.run("update users set status = 'active', reason = '' where id = ?", id)
    return visit.redirect(f"/user/{id}")


# -------------------------------------------------------------------------------------------------------- deactivating


@app.get("/users/deactivate")
def ask_deactivate(visit: Visit) -> HttpResponse:
    """Nothing happens before it is confirmed, with a reason."""
    visit.need_user()
    if not chosen(visit):
        visit.flash(visit.t("nothing_chosen"), "bad")
        return visit.redirect("/users")
    return _confirm(visit)


def _confirm(visit: Visit) -> HttpResponse:
    reasons = [("", visit.t("please_choose")), *((key, visit.t(key)) for key in REASONS)]
    return visit.page("deactivate.html", people=[_user(visit, id) for id in chosen(visit)], reasons=reasons)


@app.post("/users/deactivate")
def deactivate(visit: Visit) -> HttpResponse:
    me, ids = visit.need_user(), chosen(visit)
    if visit.text("reason") not in REASONS:
        visit.errors["reason"] = visit.t("required")
    if me["id"] in ids:
        visit.errors["reason"] = visit.t("not_yourself")
    if visit.errors:
        return _confirm(visit)
    for id in ids:
        note(visit, "deactivated_user", _user(visit, id)["name"])
        visit.state.run("update users set status = 'deactivated', reason = ? where id = ?", visit.text("reason"), id)
    visit.flash(visit.t("saved"))
    return visit.redirect("/users" if len(ids) > 1 else f"/user/{ids[0]}")


# ------------------------------------------------------------------------------------------------------------ inviting


def _invite_page(visit: Visit) -> HttpResponse:
    t = visit.t
    roles = [("", t("please_choose")), *((key, t(key)) for key in ROLES[1:])]
    return visit.page("invite.html", roles=roles, teams=[("", t("please_choose")), *((team, team) for team in TEAMS)])


@app.get("/invite")
def invite(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _invite_page(visit)


@app.post("/invite")
def send_invite(visit: Visit) -> HttpResponse:
    visit.need_user()
    visit.require("name", "email", "staff", "role", "team")
    email, domain = visit.text("email").lower(), setting(visit, "domain")
    if "email" not in visit.errors and not re.fullmatch(rf"[^@\s]+@{re.escape(domain)}", email):
        visit.errors["email"] = visit.t("bad_email", domain=domain)
    elif visit.state.one("select * from users where lower(email) = ?", email):
        visit.errors["email"] = visit.t("email_taken")
    if "staff" not in visit.errors and not re.fullmatch(r"\d{6}", visit.text("staff")):
        visit.errors["staff"] = visit.t("bad_staff")
    if visit.errors:
        return _invite_page(visit)
    if visit.text("role") not in ROLES[1:] or visit.text("team") not in TEAMS:
        raise NotFound("no such role or team")
    today = visit.episode.variation.today.isoformat()
    visit.state.add(
        "users", name=visit.text("name"), email=email, password=None, role=visit.text("role"), team=visit.text("team"),
        status="invited", staff=visit.text("staff"), joined=today, seen="", reason="",
    )  # fmt: skip
    note(visit, "invited_user", visit.text("name"))
    visit.flash(visit.t("invited_flash", name=visit.text("name")))
    return visit.redirect("/users")


# --------------------------------------------------------------------------------------------------------------- roles


@app.get("/roles")
def roles(visit: Visit) -> HttpResponse:
    visit.need_user()
    counts = {row["role"]: row["n"] for row in visit.state.all("select role, count(*) n from users group by role")}
    allowed = visit.state.all("select * from permissions where allowed = 1")
    return visit.page(
        "roles.html",
        roles=[(role, counts.get(role, 0), [row["name"] for row in allowed if row["role"] == role]) for role in ROLES],
    )


def _permissions(visit: Visit, role: str) -> list[Row]:
    found = visit.state.all("select * from permissions where role = ? order by id", role)
    if not found:
        raise NotFound(role)
    return found


@app.get("/role/<word:name>")
def role(visit: Visit, name: str) -> HttpResponse:
    visit.need_user()
    return visit.page("role.html", role=name, permissions=_permissions(visit, name))


@app.post("/role/<word:name>")
def save_role(visit: Visit, name: str) -> HttpResponse:
    visit.need_user()
    if name == ROLES[0]:
        visit.flash(visit.t("owner_fixed"), "bad")
        return visit.redirect("/role/owner")
    for row in _permissions(visit, name):
        visit.state.run("update permissions set allowed = ? where id = ?", int(row["name"] in visit.form), row["id"])
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/role/{name}")
