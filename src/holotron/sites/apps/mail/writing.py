"""Writing: new letters, answers, forwards, drafts. The form rejects what cannot be sent."""

from __future__ import annotations

import datetime
import re

from holotron.sites.apps.mail.app import app
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")
FIELDS = ("recipients", "cc", "subject", "body", "attachment")
KINDS = ("reply", "reply-all", "forward")


def addresses(text: str) -> str:
    """A list of addresses as it is kept: sorted, each once."""
    return ", ".join(sorted({part.strip().lower() for part in text.split(",") if part.strip()}))


def answer_to(message: Row, kind: str, me: str) -> tuple[str, str]:
    """Who gets an answer: recipients, and copies."""
    if kind == "forward":
        return "", ""
    if kind == "reply":
        return message["address"], ""
    others = set(f"{message['recipients']}, {message['cc']}".split(", ")) - {me, message["address"], ""}
    return message["address"], ", ".join(sorted(others))


@app.get("/compose")
def compose(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _form(visit, {"recipients": visit.text("to")}, "new", 0, "compose")


@app.get("/thread/<id>/<word:kind>")
def answer(visit: Visit, id: int, kind: str) -> HttpResponse:
    return _answer_form(visit, id, kind)


def _answer_form(visit: Visit, id: int, kind: str) -> HttpResponse:
    user = visit.need_user()
    if kind not in KINDS:
        raise NotFound(kind)
    message = visit.state.get("select m.*, t.subject from messages m join threads t on t.id = m.thread "
                              "where t.id = ? order by m.id desc", id)  # fmt: skip
    recipients, cc = answer_to(message, kind, user["email"])
    values = {"recipients": recipients, "cc": cc, "subject": _subject(message["subject"], kind)}
    if kind == "forward":
        values["attachment"] = _attached(visit, id)
    return _form(visit, values, kind, id, f"{kind}:{id}", quoted=message)


def _subject(subject: str, kind: str) -> str:
    return f"{'Fwd' if kind == 'forward' else 'Re'}: {subject}"


def _attached(visit: Visit, thread: int) -> str:
    return str(visit.state.value("select coalesce(max(attachment), '') from messages where thread = ?", thread))


@app.get("/draft/<id>")
def draft(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    row = visit.state.get("select * from drafts where id = ?", id)
    return _form(visit, row, row["kind"], row["thread"], f"draft:{id}", draft=id)


def _form(visit: Visit, values: dict[str, str], kind: str, thread: int, page: str, *, draft: int = 0,
          quoted: Row | None = None) -> HttpResponse:  # fmt: skip
    names = [row["name"] for row in visit.state.all("select * from files order by name")]
    kept = values.get("attachment", "")
    if kept and kept not in names:
        names.append(kept)
    return visit.page("compose.html", values={name: values.get(name, "") for name in FIELDS}, kind=kind, thread=thread,
                      name=page, draft=draft, quoted=quoted,
                      files=[("", visit.t("no_attachment")), *((n, n) for n in names)])  # fmt: skip


@app.post("/send")
def send(visit: Visit) -> HttpResponse:
    user, t = visit.need_user(), visit.t
    kind, thread, draft = visit.text("kind"), visit.number("thread", 0), visit.number("draft", 0)
    values = {name: visit.text(name) for name in FIELDS}
    if visit.text("do") == "draft":
        return _keep(visit, values, kind, thread, draft)
    visit.require("recipients", "subject", "body")
    for name in ("recipients", "cc"):
        if name not in visit.errors and (wrong := _not_addresses(values[name])):
            visit.errors[name] = t("bad_separator") if ";" in wrong else t("bad_address", address=wrong)
    if visit.errors:
        page = "compose" if kind == "new" and not draft else f"draft:{draft}" if draft else f"{kind}:{thread}"
        return _form(visit, values, kind, thread, page, draft=draft)
    if kind in ("reply", "reply-all"):
        visit.state.get("select * from threads where id = ?", thread)
    else:
        thread = visit.state.add("threads", subject=values["subject"], folder="sent", starred=0, unread=0, kind="sent")
    noon = datetime.datetime.combine(visit.episode.variation.today, datetime.time(12))
    visit.state.add(
        "messages", thread=thread, sender=user["name"], address=user["email"],
        recipients=addresses(values["recipients"]), cc=addresses(values["cc"]),
        at=noon.isoformat(timespec="minutes"), body=values["body"],
        attachment=values["attachment"], mine=1, once=0, code="", amount=0,
    )  # fmt: skip
    if draft:
        visit.state.run("delete from drafts where id = ?", draft)
    visit.flash(t("sent_it"))
    return visit.redirect(f"/thread/{thread}")


def _keep(visit: Visit, values: dict[str, str], kind: str, thread: int, draft: int) -> HttpResponse:
    if draft:
        visit.state.run(
            "update drafts set recipients = ?, cc = ?, subject = ?, body = ?, attachment = ? where id = ?",
            *values.values(), draft,
        )  # fmt: skip
    else:
        visit.state.add("drafts", kind=kind, thread=thread, **values)
    visit.flash(visit.t("saved"))
    return visit.redirect("/folder/drafts")


@app.post("/draft/<id>/delete")
def delete_draft(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("delete from drafts where id = ?", id)
    return visit.redirect("/folder/drafts")


def _not_addresses(text: str) -> str:
    """The first part that is no address."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return next((part for part in parts if not ADDRESS.fullmatch(part)), "")
