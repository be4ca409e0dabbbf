"""Rules that act on mail, labels, contacts, settings, and fetching what has come."""

from __future__ import annotations

import datetime

from holotron.sites.apps.mail.app import app
from holotron.sites.apps.mail.data import ACTIONS, FIELDS
from holotron.sites.apps.mail.reading import add_label
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row, State
from holotron.sites.web import Visit

CONTACTS_PER_PAGE = 6
SHORTEST_RULE = 4  # characters


def matching(state: State, rule: Row) -> list[int]:
    """Conversations in the inbox that a rule is about."""
    column = "address" if rule["field"] == "from" else "subject"
    rows = state.all(
        f"select distinct t.id from threads t join messages m on m.thread = t.id where t.folder = 'inbox' and "
        f"m.mine = 0 and instr(lower({column}), lower(?)) order by t.id",
        rule["contains"],
    )
    return [row["id"] for row in rows]


def apply(state: State, rule: Row, thread: int) -> None:
    if rule["action"] == "label":
        add_label(state, thread, rule["label"])
    elif rule["action"] == "star":
        state.run("update threads set starred = 1 where id = ?", thread)
    else:
        state.run("update threads set folder = ? where id = ?", rule["action"], thread)


@app.post("/fetch")
def fetch(visit: Visit) -> HttpResponse:
    """What has come arrives in the inbox, and every rule is applied to it."""
    user, state = visit.need_user(), visit.state
    waiting = state.all("select * from incoming order by id")
    noon = datetime.datetime.combine(visit.episode.variation.today, datetime.time(11, 30))
    arrived = []
    for row in waiting:
        thread = state.add("threads", subject=row["subject"], folder="inbox", starred=0, unread=1, kind="new")
        state.add(
            "messages", thread=thread, sender=row["sender"], address=row["address"], recipients=user["email"], cc="",
            at=noon.isoformat(timespec="minutes"), body=row["body"], attachment="", mine=0, once=0, code=row["code"],
            amount=0,
        )  # fmt: skip
        arrived.append(thread)
    for rule in state.all("select * from filters order by id"):
        for thread in set(matching(state, rule)) & set(arrived):
            apply(state, rule, thread)
    state.run("delete from incoming")
    visit.flash(visit.t("fetched", count=len(waiting)))
    return visit.redirect("/folder/inbox")


# -------------------------------------------------------------------------------------------------------------- rules


@app.get("/filters")
def filters(visit: Visit) -> HttpResponse:
    visit.need_user()
    return visit.page("filters.html", filters=visit.state.all("select * from filters order by id"))


@app.get("/filters/new")
def new_filter(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _filter_page(visit)


def _filter_page(visit: Visit) -> HttpResponse:
    t, labels = visit.t, visit.state.all("select * from labels order by name")
    return visit.page(
        "filter.html",
        fields=[(name, t(f"field_{name}")) for name in FIELDS],
        actions=[("", t("please_choose")), *((name, t(f"action_{name}")) for name in ACTIONS)],
        labels=[("", t("no_label")), *((row["name"], row["name"]) for row in labels)],
    )


@app.post("/filters/new")
def add_filter(visit: Visit) -> HttpResponse:
    visit.need_user()
    t, state = visit.t, visit.state
    rule = {name: visit.text(name) for name in ("field", "contains", "action", "label")}
    rule["contains"] = rule["contains"].lower()  # rules do not care about case
    visit.require("contains", "action")
    if "contains" not in visit.errors and len(rule["contains"]) < SHORTEST_RULE:
        visit.errors["contains"] = t("too_short", count=SHORTEST_RULE)
    if rule["field"] not in FIELDS:
        visit.errors["field"] = t("required")
    if rule["action"] == "label" and not state.one("select * from labels where name = ?", rule["label"]):
        visit.errors["label"] = t("choose_label")
    if rule["action"] != "label":
        rule["label"] = ""
    if visit.errors or rule["action"] not in ACTIONS:
        return _filter_page(visit)
    state.add("filters", **rule)
    if "existing" in visit.form:
        for thread in matching(state, rule):
            apply(state, rule, thread)
    visit.flash(t("saved"))
    return visit.redirect("/filters")


@app.post("/filters/<id>/delete")
def delete_filter(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("delete from filters where id = ?", id)
    return visit.redirect("/filters")


# ------------------------------------------------------------------------------------------------------------- labels


@app.get("/labels")
def labels(visit: Visit) -> HttpResponse:
    return _labels_page(visit)


def _labels_page(visit: Visit) -> HttpResponse:
    visit.need_user()
    rows = visit.state.all(
        "select l.*, (select count(*) from thread_labels where label = l.name) used from labels l order by name"
    )
    return visit.page("labels.html", labels=rows)


@app.post("/labels")
def add_label_name(visit: Visit) -> HttpResponse:
    visit.need_user()
    visit.require("name")
    name = visit.text("name")
    if visit.state.one("select * from labels where lower(name) = lower(?)", name):
        visit.errors["name"] = visit.t("label_exists")
    if visit.errors:
        return _labels_page(visit)
    visit.state.add("labels", name=name, hue=sum(map(ord, name)) % 360)
    return visit.redirect("/labels")


@app.post("/labels/<id>/delete")
def delete_label(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    row = visit.state.get("select * from labels where id = ?", id)
    visit.state.run("delete from thread_labels where label = ?", row["name"])
    visit.state.run("delete from labels where id = ?", id)
    return visit.redirect("/labels")


# ------------------------------------------------------------------------------------------------- contacts, settings


@app.get("/contacts")
def contacts(visit: Visit) -> HttpResponse:
    visit.need_user()
    rows = visit.state.all("select * from contacts order by name")
    return visit.page("contacts.html", split=visit.split(rows, CONTACTS_PER_PAGE))


@app.get("/contact/<id>")
def contact(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return visit.page("contact.html", contact=visit.state.get("select * from contacts where id = ?", id))


@app.get("/settings")
def settings(visit: Visit) -> HttpResponse:
    visit.need_user()
    return visit.page("settings.html")


@app.post("/settings")
def save_settings(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    if "away" in visit.form:
        visit.require("away_text")
    if visit.errors:
        return visit.page("settings.html")
    visit.state.run("update users set signature = ?, away = ?, away_text = ? where id = ?", visit.text("signature"),
                    int("away" in visit.form), visit.text("away_text"), user["id"])  # fmt: skip
    visit.flash(visit.t("saved"))
    return visit.redirect("/settings")
