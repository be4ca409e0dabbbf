"""How the solver works through a mailbox. Every function looks at the page and the state as they are and gives the next
action, or None when there is nothing left to do."""

from __future__ import annotations

from collections.abc import Mapping

from holotron.sites.apps.mail.reading import IN_PLACE, THREADS_PER_PAGE, listed
from holotron.sites.apps.mail.rules import CONTACTS_PER_PAGE
from holotron.sites.solver.view import PageView
from holotron.sites.state import Row
from holotron.types import Action, GoBack

MARKS = {"starred": ("unstar", "star"), "unread": ("read", "unread")}


# ---------------------------------------------------------------------------------------------------- going somewhere


def to_place(view: PageView, name: str) -> Action | None:
    return None if view.page == f"folder:{name}" else view.click(f"go:{name}")


def to_own(view: PageView, page: str) -> Action | None:
    """`settings`, `filters` or `labels`."""
    if view.page == page:
        return None
    return view.click(f"own:{page}" if view.has(f"own:{page}") else "go:settings")


def to_page(view: PageView, wanted: int) -> Action:
    return view.click("next" if int(view.query.get("page", 1)) < wanted else "previous")


def to_listed(view: PageView, thread: int) -> Action | None:
    """A list on which this conversation is."""
    if view.has(f"pick:{thread}"):
        return None
    row = view.state.get("select * from threads where id = ?", thread)
    if row["folder"] in ("spam", "trash"):
        if move := to_place(view, row["folder"]):
            return move
        rows = [found["id"] for found in listed(view.state, IN_PLACE[row["folder"]])]
        return to_page(view, rows.index(thread) // THREADS_PER_PAGE + 1)
    if view.page == "search" and view.query.get("q") == row["subject"]:
        return view.click("next")
    return view.search(row["subject"])


def to_thread(view: PageView, thread: int) -> Action | None:
    if view.page == f"thread:{thread}":
        return None
    return view.click(f"thread:{thread}") if view.has(f"thread:{thread}") else to_listed(view, thread)


def to_contact(view: PageView, contact: int) -> Action | None:
    if view.page == f"contact:{contact}":
        return None
    if view.page != "contacts":
        return view.click("go:contacts")
    if view.has(f"contact:{contact}"):
        return view.click(f"contact:{contact}")
    rows = [row["id"] for row in view.state.all("select id from contacts order by name")]
    return to_page(view, rows.index(contact) // CONTACTS_PER_PAGE + 1)


# --------------------------------------------------------------------------------------------------------- doing things


def tidy(view: PageView) -> Action | None:
    """Undo what nobody asked for."""
    for change in view.strays("threads"):
        if change.before is None or change.after is None:
            continue  # sent, which cannot be undone
        if "folder" in change.columns:
            return to_thread(view, change.id) or view.click(f"do:{change.before['folder']}")
        for column in change.columns & MARKS.keys():
            return to_thread(view, change.id) or view.click(f"do:{MARKS[column][change.before[column]]}")
    for change in view.strays("thread_labels"):
        if change.before is None and change.after is not None:
            return to_thread(view, change.after["thread"]) or view.click(f"unlabel:{change.after['label']}")
    for change in view.strays("drafts", "filters", "labels"):
        if change.before is None:
            there = to_place(view, "drafts") if change.table == "drafts" else to_own(view, change.table)
            return there or view.click(f"delete:{change.id}")
    return None


def ticked(view: PageView, threads: list[int]) -> Action | None:
    """Of the boxes on this page, exactly these."""
    for name in view.names("pick:"):
        if move := view.tick(f"pick:{name}", int(name) in threads):
            return move
    return None


def move_to(view: PageView, thread: int, folder: str) -> Action | None:
    if view.state.value("select folder from threads where id = ?", thread) == folder:
        return None
    return to_thread(view, thread) or view.click(f"do:{folder}")


def mark(view: PageView, thread: int, column: str, value: int) -> Action | None:
    if view.state.value(f"select {column} from threads where id = ?", thread) == value:
        return None
    if column == "starred":
        return to_listed(view, thread) or view.click(f"star:{thread}")
    return to_thread(view, thread) or view.click(f"do:{MARKS[column][value]}")


def put_label(view: PageView, thread: int, label: str) -> Action | None:
    if view.state.one("select * from thread_labels where thread = ? and label = ?", thread, label):
        return None
    return to_thread(view, thread) or view.choose("which-label", label) or view.click("do:label")


def write(view: PageView, letter: Mapping[str, str]) -> Action:
    """Fill in the form that is open and send it."""
    for name in ("recipients", "cc", "subject", "body"):
        wanted = letter.get(name)
        if view.has(f"wrong:{name}"):
            wanted = letter.get(f"{name}_corrected", wanted)
        if wanted is not None and (move := view.fill(f"field:{name}", wanted)):
            return move
    if "attachment" in letter and (move := view.choose("field:attachment", letter["attachment"])):
        return move
    return view.click("send")


def save_filter(view: PageView, rule: Row, *, existing: bool) -> Action:
    if view.page != "filter":
        return to_own(view, "filters") or view.click("new-filter")
    return (
        view.choose("field:field", view.t(f"field_{rule['field']}"))
        or view.fill("field:contains", rule["contains"])
        or view.choose("field:action", view.t(f"action_{rule['action']}"))
        or (view.choose("field:label", rule["label"]) if rule["label"] else None)
        or view.tick("field:existing", existing)
        or view.click("save")
    )


# ------------------------------------------------------------------------------------------------- plans of templates


def star(view: PageView) -> Action | None:
    return tidy(view) or mark(view, view.facts["thread"], "starred", view.facts["value"])


def move(view: PageView) -> Action | None:
    return tidy(view) or move_to(view, view.facts["thread"], view.facts["folder"])


def settings(view: PageView) -> Action | None:
    wanted: Row = view.facts["values"]
    return (
        tidy(view)
        or to_own(view, "settings")
        or view.fill("field:signature", wanted["signature"])
        or view.tick("field:away", bool(wanted["away"]))
        or view.fill("field:away_text", wanted["away_text"])
        or view.click("save")
    )


def read_code(view: PageView) -> Action | None:
    message = view.facts["message"]
    return to_thread(view, message["thread"]) or view.read(f"body:{message['id']}", str(view.facts["answer"]))


def maybe(view: PageView) -> Action | None:
    if view.facts["thread"]:
        return star(view)
    if view.page != "search" or view.query.get("q") != view.facts["file"]:
        return tidy(view) or view.search(view.facts["file"])
    return tidy(view) or view.read("nothing", "impossible")


def compose(view: PageView) -> Action | None:
    if view.page != "compose":
        return tidy(view) or view.click("go:compose")
    return write(view, view.facts["letter"])


def answer(view: PageView) -> Action | None:
    thread, kind = view.facts["thread"], view.facts["kind"]
    if view.page != f"{kind}:{thread}":
        return tidy(view) or to_thread(view, thread) or view.click(kind)
    return write(view, view.facts["letter"])


def forward(view: PageView) -> Action | None:
    """The address first, then the letter."""
    if not view.memory.get("address"):
        if move := to_contact(view, view.facts["contact"]) or view.see("email"):
            return move
        view.memory["address"] = True
    return answer(view)


def rule(view: PageView) -> Action | None:
    return tidy(view) or save_filter(view, view.facts["rule"], existing=True)


def bulk(view: PageView) -> Action | None:
    facts = view.facts
    left = [id for id in facts["threads"] if view.state.value("select folder from threads where id = ?", id) == "inbox"]
    if move := tidy(view):
        return move
    if view.page != "search" or view.query.get("q") != facts["sender"]:
        return view.search(facts["sender"])
    here = [id for id in left if view.has(f"pick:{id}")]
    if not here:
        return view.click("next" if view.has("next") else "previous")
    return ticked(view, here) or view.click(f"do:{facts['folder']}")


def count(view: PageView) -> Action | None:
    """Look at every page of the list before answering."""
    if move := tidy(view) or to_place(view, view.facts["place"]):
        return move
    seen = view.memory.setdefault("seen", [])
    for name in view.names("thread:"):
        if name not in seen:
            if move := view.see(f"thread:{name}"):
                return move
            seen.append(name)
    if len(seen) >= view.facts["threads"]:
        return view.answer(view.facts["answer"])
    return view.click("next" if view.has("next") else "previous")


def draft(view: PageView) -> Action | None:
    number = view.facts["draft"]
    if view.page != f"draft:{number}":
        return tidy(view) or to_place(view, "drafts") or view.click(f"draft:{number}")
    return write(view, view.facts["letter"])


def invoices(view: PageView) -> Action | None:
    """Open each, read the amount, go back to the list."""
    seen = view.memory.setdefault("seen", [])
    for message in view.facts["messages"]:
        if view.page == f"thread:{message['thread']}" and message["id"] not in seen:
            if move := view.see(f"body:{message['id']}"):
                return move
            seen.append(message["id"])
    left = [message["thread"] for message in view.facts["messages"] if message["id"] not in seen]
    if not left:
        return view.answer(view.facts["answer"])
    if view.page == "search" and view.query.get("q") == view.facts["query"]:
        here = [thread for thread in left if view.has(f"thread:{thread}")]
        return view.click(f"thread:{here[0]}" if here else "next" if view.has("next") else "previous")
    return GoBack() if view.page.startswith("thread:") and _came_from_list(view) else view.search(view.facts["query"])


def _came_from_list(view: PageView) -> bool:
    """Going back leads to the list only once after each page that was read from it."""
    count = len(view.memory["seen"])
    if view.memory.get("went") == count:
        return False
    view.memory["went"] = count
    return True


def triage(view: PageView) -> Action | None:
    if move := tidy(view):
        return move
    for job in view.facts["jobs"]:
        thread, what = job["thread"], job["what"]
        if what == "label":
            step = put_label(view, thread, job["label"])
        elif what == "star":
            step = mark(view, thread, "starred", 1)
        else:
            step = move_to(view, thread, what)
        if step is not None:
            return step
    return None


def new_rules(view: PageView) -> Action | None:
    """The label, then the rules, and only then the mail."""
    facts, state = view.facts, view.state
    if move := tidy(view):
        return move
    if not state.one("select * from labels where name = ?", facts["label"]):
        return to_own(view, "labels") or view.fill("field:name", facts["label"]) or view.click("add-label")
    for rule in facts["rules"]:
        if not state.one("select * from filters where contains = ? and action = ?", rule["contains"], rule["action"]):
            return save_filter(view, rule, existing=False)
    return to_place(view, "inbox") or view.click("fetch")


def recall(view: PageView) -> Action | None:
    """Read the code while it is shown, follow the handovers, and only then write."""
    facts, seen = view.facts, view.memory.setdefault("seen", [])
    if facts["once"] not in seen:
        if view.has(f"body:{facts['once']}") and (move := view.see(f"body:{facts['once']}")):
            return move
        seen.append(facts["once"])
    for message in facts["handovers"]:
        if view.page == f"thread:{message['thread']}" and message["id"] not in seen:
            if move := view.see(f"body:{message['id']}"):
                return move
            seen.append(message["id"])
        if message["id"] not in seen:
            return tidy(view) or to_thread(view, message["thread"])
    if view.page == "compose":
        return write(view, facts["letter"])
    return tidy(view) or to_contact(view, facts["contact"]) or view.click("write-to")
