"""Reading and sorting: folders, labels, search, conversations, and what can be done with several at once."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.mail.app import PLACES, app
from holotron.sites.apps.mail.data import FOLDERS
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row, State
from holotron.sites.web import NotFound, Visit

THREADS_PER_PAGE = 8
SORTS = {
    "newest": "at desc, id desc",
    "oldest": "at, id",
    "sender": "lower(sender), at desc",
    "subject": "lower(subject), at desc",
}
MARKS = {"star": ("starred", 1), "unstar": ("starred", 0), "read": ("unread", 0), "unread": ("unread", 1)}
TARGETS = ("inbox", "archive", "spam", "trash")

# A conversation as lists show it: its last letter, and whether any of them has something attached.
LISTED = (
    "select t.*, m.sender, m.at, case when m.once then '' else m.body end body, "
    "(select count(*) from messages where thread = t.id) letters, "
    "(select max(attachment) from messages where thread = t.id) attachment, "
    "(select group_concat(label, ',') from thread_labels where thread = t.id) labels "
    "from threads t join messages m on m.id = (select max(id) from messages where thread = t.id)"
)
IN_PLACE = {
    "starred": "starred = 1 and folder not in ('spam', 'trash')",
    "sent": "id in (select thread from messages where mine = 1) and folder != 'trash'",
    **{folder: f"folder = '{folder}'" for folder in FOLDERS if folder != "sent"},
}


def listed(state: State, condition: str = "1", sort: str = "newest", *values: Any) -> list[Row]:
    return state.all(f"select * from ({LISTED}) c where {condition} order by {SORTS[sort]}", *values)


def found_by(state: State, q: str, sort: str = "newest", *, attached: bool = False) -> list[Row]:
    """Every word has to be in what was written, said of it or attached to it; spam and trash are left out."""
    conditions, values = ["folder not in ('spam', 'trash')"], []
    for word in q.lower().split():
        conditions.append(
            "exists (select 1 from messages x where x.thread = c.id and x.once = 0 and "
            "lower(subject || ' ' || x.sender || ' ' || x.address || ' ' || x.body || ' ' || x.attachment) like ?)"
        )
        values.append(f"%{word}%")
    if attached:
        conditions.append("attachment != ''")
    return listed(state, " and ".join(conditions), sort, *values)


@app.get("/")
def home(visit: Visit) -> HttpResponse:
    return _list_page(visit, "inbox", "folder:inbox")


@app.get("/folder/<word:name>")
def folder(visit: Visit, name: str) -> HttpResponse:
    if name == "drafts":
        visit.need_user()
        return visit.page("drafts.html", drafts=visit.state.all("select * from drafts order by id desc"))
    if name not in PLACES:
        raise NotFound(name)
    return _list_page(visit, name, f"folder:{name}")


@app.get("/label/<id>")
def label(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    name = visit.state.get("select * from labels where id = ?", id)["name"]
    condition = "folder not in ('spam', 'trash') and id in (select thread from thread_labels where label = ?)"
    return _show(visit, listed(visit.state, condition, _sort(visit), name), name, f"label:{name}")


@app.get("/search")
def search(visit: Visit) -> HttpResponse:
    visit.need_user()
    rows = found_by(visit.state, visit.text("q"), _sort(visit), attached=bool(visit.text("attached")))
    return _show(visit, rows, visit.t("results_for", q=visit.text("q")), "search")


def _sort(visit: Visit) -> str:
    return visit.text("sort") if visit.text("sort") in SORTS else "newest"


def _list_page(visit: Visit, name: str, page: str) -> HttpResponse:
    visit.need_user()
    return _show(visit, listed(visit.state, IN_PLACE[name], _sort(visit)), visit.t(name), page)


def _show(visit: Visit, rows: list[Row], title: str, page: str) -> HttpResponse:
    split = visit.split(rows, THREADS_PER_PAGE)
    last = visit.state.all("select t.subject from undo u join threads t on t.id = u.thread")
    return visit.page("threads.html", split=split, title=title, name=page, sort=_sort(visit), sorts=SORTS,
                      labels=visit.state.all("select * from labels order by name"), undo=last)  # fmt: skip


# ------------------------------------------------------------------------------------------------- one conversation


@app.get("/thread/<id>")
def thread(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    thread = visit.state.get("select * from threads where id = ?", id)
    return visit.page(
        "thread.html",
        thread=thread,
        messages=visit.state.all("select * from messages where thread = ? order by id", id),
        on=visit.state.all("select * from thread_labels where thread = ? order by label", id),
        labels=visit.state.all("select * from labels order by name"),
        open_once=visit.episode.pages <= 1,
    )


@app.post("/thread/<id>/mark")
def mark_one(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    _do(visit, visit.text("do"), [id])
    return visit.redirect(_back(visit, f"/thread/{id}"))


@app.post("/thread/<id>/star")
def star(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("update threads set starred = 1 - starred where id = ?", id)
    return visit.redirect(_back(visit, f"/thread/{id}"))


@app.post("/thread/<id>/unlabel")
def unlabel(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    visit.state.run("delete from thread_labels where thread = ? and label = ?", id, visit.text("label"))
    return visit.redirect(f"/thread/{id}")


@app.post("/bulk")
def bulk(visit: Visit) -> HttpResponse:
    """With everything that is ticked; the boxes are called `pick-12`."""
    visit.need_user()
    chosen = [int(name[5:]) for name in visit.form if name.startswith("pick-") and name[5:].isdigit()]
    if not chosen:
        visit.flash(visit.t("nothing_chosen"), "bad")
    else:
        _do(visit, visit.text("do"), chosen)
    return visit.redirect(_back(visit, "/"))


def _do(visit: Visit, what: str, threads: list[int]) -> None:
    state, t = visit.state, visit.t
    if what in TARGETS:
        state.run("delete from undo")
        for id in threads:
            state.run("insert into undo (thread, folder) select id, folder from threads where id = ?", id)
            state.run("update threads set folder = ? where id = ?", what, id)
        visit.flash(t("moved", count=len(threads), folder=t(what)))
    elif what in MARKS:
        column, value = MARKS[what]
        for id in threads:
            state.run(f"update threads set {column} = ? where id = ?", value, id)
    elif what == "label":
        name = visit.text("label")
        if not state.one("select * from labels where name = ?", name):
            visit.flash(t("choose_label"), "bad")
            return
        for id in threads:
            add_label(state, id, name)
        visit.flash(t("labelled", label=name))
    else:
        raise NotFound(what)


def add_label(state: State, thread: int, label: str) -> None:
    if not state.one("select * from thread_labels where thread = ? and label = ?", thread, label):
        state.add("thread_labels", thread=thread, label=label)


@app.post("/undo")
def undo(visit: Visit) -> HttpResponse:
    visit.need_user()
    for row in visit.state.all("select * from undo"):
        visit.state.run("update threads set folder = ? where id = ?", row["folder"], row["thread"])
    visit.state.run("delete from undo")
    visit.flash(visit.t("undone"))
    return visit.redirect(_back(visit, "/"))


def _back(visit: Visit, otherwise: str) -> str:
    """The list that the button was on."""
    there = visit.text("back")
    return there if there.startswith(("/folder/", "/search", "/label/", "/thread/")) else otherwise
