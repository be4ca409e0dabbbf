"""The start page, the audit log, and settings that are checked before they are saved."""

from __future__ import annotations

from holotron.sites.apps.admin.accounts import setting
from holotron.sites.apps.admin.app import app, note
from holotron.sites.apps.admin.data import ACTIONS
from holotron.sites.apps.admin.files import megabytes, used
from holotron.sites.http import HttpResponse
from holotron.sites.web import NotFound, Visit

ENTRIES_PER_PAGE = 10
# Settings by page: each with its kind, and the least and the most for numbers.
PAGES: dict[str, dict[str, tuple[str, int, int]]] = {
    "general": {"organisation": ("text", 0, 0), "contact": ("email", 0, 0)},
    "safety": {"timeout": ("number", 5, 0), "password_length": ("number", 8, 64), "two_factor": ("check", 0, 0)},
    "storage": {"retention": ("number", 7, 365), "archive": ("check", 0, 0)},
}


@app.get("/")
def overview(visit: Visit) -> HttpResponse:
    visit.need_user()
    counts = visit.state.all("select status, count(*) n from users group by status order by status")
    recent = visit.state.all("select * from audit order by day desc, id desc limit 5")
    return visit.page("overview.html", counts=counts, recent=recent, used=megabytes(used(visit)))


@app.get("/audit")
def audit(visit: Visit) -> HttpResponse:
    visit.need_user()
    conditions, values = ["1"], []
    if visit.text("action") in ACTIONS:
        conditions.append("action = ?")
        values.append(visit.text("action"))
    if visit.text("actor"):
        conditions.append("lower(actor) like ?")
        values.append(f"%{visit.text('actor').lower()}%")
    found = visit.state.all(f"select * from audit where {' and '.join(conditions)} order by day desc, id desc", *values)
    return visit.page("audit.html", split=visit.split(found, ENTRIES_PER_PAGE), actions=ACTIONS)


@app.get("/settings/<word:page>")
def settings(visit: Visit, page: str) -> HttpResponse:
    visit.need_user()
    return _settings_page(visit, page)


def _settings_page(visit: Visit, page: str) -> HttpResponse:
    if page not in PAGES:
        raise NotFound(page)
    values = {name: setting(visit, name) for name in PAGES[page]}
    return visit.page("settings.html", here=page, pages=PAGES, fields=PAGES[page], values=values)


@app.post("/settings/<word:page>")
def save_settings(visit: Visit, page: str) -> HttpResponse:
    visit.need_user()
    if page not in PAGES:
        raise NotFound(page)
    for name, (kind, low, high) in PAGES[page].items():
        if kind == "number":
            most = high or int(setting(visit, "longest_timeout"))
            if not low <= visit.number(name, 0) <= most:
                visit.errors[name] = visit.t("between", low=low, high=most)
        elif kind == "email" and "@" not in visit.text(name):
            visit.errors[name] = visit.t("bad_address")
        elif kind == "text":
            visit.require(name)
    if visit.errors:
        return _settings_page(visit, page)
    for name, (kind, _, _) in PAGES[page].items():
        value = str(int(name in visit.form)) if kind == "check" else visit.text(name)
        value = str(visit.number(name)) if kind == "number" else value
        if value != setting(visit, name):
            visit.state.run("update settings set value = ? where name = ?", value, name)
            note(visit, "settings_changed", name)
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/settings/{page}")
