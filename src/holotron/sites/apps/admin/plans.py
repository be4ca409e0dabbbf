"""How the solver administers. Every function looks at the page and the state as they are and gives the next action, or
None when there is nothing left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holotron.sites.solver.view import PageView
from holotron.sites.state import Row
from holotron.types import Action

# ---------------------------------------------------------------------------------------------------- going somewhere


def to_user(view: PageView, user: Row) -> Action | None:
    name = f"user:{user['id']}"
    if view.page == name:
        return None
    return view.click(name) if view.has(name) else view.search(user["name"])


def to_folder(view: PageView, folder: int) -> Action | None:
    """Through the folders above it."""
    if view.page == f"files:{folder}":
        return None
    if view.has(f"folder:{folder}"):
        return view.click(f"folder:{folder}")
    parent = view.state.value("select parent from folders where id = ?", folder) if folder else 0
    if parent and view.page != f"files:{parent}":
        return to_folder(view, parent)
    return view.click("go:files")


def to_file(view: PageView, file: Row) -> Action | None:
    if view.page == f"file:{file['id']}":
        return None
    folder = view.state.value("select folder from files where id = ?", file["id"])
    return to_folder(view, folder) or view.click(f"file:{file['id']}")


def to_settings(view: PageView, page: str) -> Action | None:
    if view.page == f"settings:{page}":
        return None
    return view.click(f"tab:{page}" if view.has(f"tab:{page}") else "go:settings")


def sort_by(view: PageView, key: str, way: str) -> Action | None:
    if view.query.get("sort") == key and view.query.get("dir") == way:
        return None
    return view.click(f"sort:{key}")


def narrow(view: PageView, page: str, asked: Mapping[str, str]) -> Action | None:
    """A table with these filters; values of some are words, of others names."""
    if view.page != page or view.query.get("q"):
        return view.click(f"go:{page}")
    if all(view.query.get(field, "") == value for field, value in asked.items()):
        return None
    for field, value in asked.items():
        if move := view.choose(f"filter:{field}", value if field == "team" else view.t(value)):
            return move
    return view.click("filter:go")


# ------------------------------------------------------------------------------------------------------- doing things


def tick_exactly(view: PageView, ids: Sequence[int]) -> Action | None:
    for name in view.names("pick:"):
        if move := view.tick(f"pick:{name}", int(name) in ids):
            return move
    return None


def have_user(view: PageView, user: Row, **fields: str) -> Action | None:
    """This role or team."""
    now = view.state.get("select * from users where id = ?", user["id"])
    if all(now[name] == value for name, value in fields.items()):
        return None
    if move := to_user(view, user):
        return move
    for name in ("role", "team"):
        value: str = fields.get(name) or now[name]
        if move := view.choose(f"field:{name}", value if name == "team" else view.t(value)):
            return move
    return view.click("save")


def deactivated(view: PageView, user: Row, reason: str) -> Action | None:
    if view.state.value("select status from users where id = ?", user["id"]) == "deactivated":
        return None
    if view.page == "deactivate" and view.has(f"chosen:{user['id']}"):
        return view.choose("field:reason", view.t(reason)) or view.click("confirm")
    return to_user(view, user) or view.click("deactivate")


def move_files(view: PageView, ids: Sequence[int], folder: int) -> Action | None:
    """Files that lie in one folder, all at once."""
    left = [id for id in ids if view.state.value("select folder from files where id = ?", id) != folder]
    if not left:
        return None
    source = view.state.value("select folder from files where id = ?", left[0])
    return (
        to_folder(view, source)
        or tick_exactly(view, left)
        or view.choose("to", path_of(view, folder))
        or view.click("move")
    )


def path_of(view: PageView, folder: int) -> str:
    row = view.state.get("select * from folders where id = ?", folder)
    above = view.state.one("select * from folders where id = ?", row["parent"])
    return f"{above['name']} / {row['name']}" if above else row["name"]


def send_invite(view: PageView, person: Row) -> Action | None:
    """What the form rejects is written as the form wants it."""
    if view.state.one("select * from users where email = ?", person["email"]):
        return None
    if view.page != "invite":
        return view.click("invite" if view.page == "users" else "go:users")
    rejected = view.has("wrong:staff") or view.memory.get("staff") or view.get("field:staff").value == person["staff"]
    if rejected:
        view.memory["staff"] = True  # once is enough to know how staff numbers are written
    return (
        view.fill("field:name", person["name"])
        or view.fill("field:email", person["email"])
        or view.fill("field:staff", person["staff"] if rejected else person["staff_as_written"])
        or view.choose("field:role", view.t(person["role"]))
        or view.choose("field:team", person["team"])
        or view.click("send")
    )


def permissions(view: PageView, role: str, wanted: Mapping[str, int]) -> Action | None:
    rows = view.state.all("select * from permissions where role = ?", role)
    if all(row["allowed"] == wanted[row["name"]] for row in rows):
        return None
    if view.page != f"role:{role}":
        return view.click(f"role:{role}" if view.page == "roles" else "go:roles")
    for name, allowed in wanted.items():
        if move := view.tick(f"field:{name}", bool(allowed)):
            return move
    return view.click("save")


def tidy(view: PageView) -> Action | None:
    """Undo what was changed by mistake, as far as it can be."""
    for change in view.strays("users"):
        if change.before is None or change.after is None or change.id in view.facts.get("people", ()):
            continue
        fields = {name: change.before[name] for name in ("role", "team") if name in change.columns}
        if fields and (move := have_user(view, dict(change.before), **fields)):
            return move
        if change.before["status"] == "active" and change.after["status"] == "deactivated":
            return to_user(view, dict(change.before)) or view.click("reactivate")
    for change in view.strays("files"):
        if change.before is not None and change.after is not None and "folder" in change.columns:
            return move_files(view, [change.id], change.before["folder"])
    for change in view.strays("folders"):
        if change.before is None:
            return to_folder(view, change.id) or view.click("delete-folder")
    return None


# ------------------------------------------------------------------------------------------------- plans of templates


def role(view: PageView) -> Action | None:
    return tidy(view) or have_user(view, view.facts["user"], **view.facts["fields"])


def read_user(view: PageView) -> Action | None:
    facts = view.facts
    return to_user(view, facts["user"]) or view.read(facts["where"], facts["answer"])


def setting(view: PageView) -> Action | None:
    """Fields of one page of settings."""
    facts = view.facts
    if move := to_settings(view, facts["page"]):
        return move
    for name, value in facts["values"].items():
        if name in ("two_factor", "archive"):
            move = view.tick(f"field:{name}", value == "1")
        else:
            move = view.fill(f"field:{name}", value)
        if move:
            return move
    return view.click("save")


def longest(view: PageView) -> Action | None:
    """Ask for too much; the form says how much there can be."""
    known = view.has("wrong:timeout") or view.get("field:timeout").value == view.facts["longest"] if (
        view.page == "settings:safety"
    ) else False  # fmt: skip
    return (
        to_settings(view, "safety")
        or view.fill("field:timeout", view.facts["longest"] if known else "9999")
        or view.click("save")
    )


def rename(view: PageView) -> Action | None:
    return (
        tidy(view)
        or to_file(view, view.facts["file"])
        or view.fill("field:name", view.facts["name"])
        or view.click("rename")
    )


def allow(view: PageView) -> Action | None:
    """What each role may do."""
    wanted: Mapping[str, Mapping[str, int]] = view.facts["roles"]
    if move := tidy(view):
        return move
    for row in view.strays("permissions"):
        if row.before and row.before["role"] not in wanted:
            before = {
                p["name"]: row.before["allowed"] if p["id"] == row.id else p["allowed"]
                for p in view.state.all("select * from permissions where role = ?", row.before["role"])
            }
            return permissions(view, row.before["role"], before)
    for role, names in wanted.items():
        if move := permissions(view, role, names):
            return move
    return None


def first_of_users(view: PageView) -> Action | None:
    facts = view.facts
    if view.page != "users" or view.query.get("q"):
        return view.click("go:users")
    if any(view.query.get(name) for name in ("role", "team", "status")):
        return view.click("go:users")
    if move := sort_by(view, facts["sort"], facts["way"]):
        return move
    if view.query.get("page", "1") != "1":
        return view.click("previous")
    return view.read(f"user:{facts['user']['id']}", facts["user"]["name"])


def largest(view: PageView) -> Action | None:
    facts = view.facts
    return (
        to_folder(view, facts["folder"])
        or sort_by(view, "size", facts["way"])
        or view.read(f"file:{facts['file']['id']}", facts["file"]["name"])
    )


def invite(view: PageView) -> Action | None:
    if move := tidy(view):
        return move
    for person in view.facts["new"]:
        if move := send_invite(view, person):
            return move
    return None


def deactivate(view: PageView) -> Action | None:
    return tidy(view) or deactivated(view, view.facts["user"], view.facts["reason"])


def audit(view: PageView) -> Action | None:
    """Page through what the filter leaves until the entry is seen."""
    facts = view.facts
    if move := narrow(view, "audit", {"action": facts["action"]}):
        return move
    entry = f"entry:{facts['entry']['id']}"
    if view.has(entry):
        return view.read(entry, facts["entry"]["actor"])
    return view.click("next" if view.has("next") else "previous")


def count(view: PageView) -> Action | None:
    facts = view.facts
    if move := narrow(view, "users", facts["filters"]):
        return move
    seen = view.memory.setdefault("seen", [])
    for id in view.names("user:"):
        if id not in seen:
            if move := view.see(f"user:{id}"):
                return move
            seen.append(id)
    if len(seen) >= facts["number"]:
        return view.answer(str(facts["number"]))
    return view.click("next" if view.has("next") else "previous")


def move(view: PageView) -> Action | None:
    return tidy(view) or move_files(view, view.facts["files"], view.facts["folder"])


def clean_up(view: PageView) -> Action | None:
    """Tick, delete, confirm; nothing else may be among what is confirmed."""
    facts = view.facts
    left = [id for id in facts["files"] if view.state.one("select * from files where id = ?", id)]
    if view.page == "delete":
        right = sorted(map(int, view.names("chosen:"))) == sorted(left)
        return view.click("confirm" if right else "cancel")
    return tidy(view) or to_folder(view, facts["folder"]) or tick_exactly(view, left) or view.click("delete")


def recall(view: PageView) -> Action | None:
    """Read the number, then give it to every new folder."""
    facts = view.facts
    if not view.memory.get("read"):
        if step := to_user(view, facts["user"]) or view.see("staff"):
            return step
        view.memory["read"] = True
    if step := tidy(view):
        return step
    for name in facts["names"]:
        if not view.state.one("select * from folders where parent = ? and name = ?", facts["folder"], name):
            return to_folder(view, facts["folder"]) or view.fill("field:folder_name", name) or view.click("create")
    return None


def maybe(view: PageView) -> Action | None:
    """Try it; the quota says if it cannot be."""
    facts = view.facts
    if step := tidy(view) or to_file(view, facts["file"]):
        return step
    if facts["full"] and view.has("flash"):
        return view.read("flash", "impossible")
    return view.choose("to", path_of(view, facts["folder"])) or view.click("copy")


def leaver(view: PageView) -> Action | None:
    """Files to somebody else's folder, then the role, then the account."""
    facts = view.facts
    return (
        tidy(view)
        or move_files(view, facts["files"], facts["folder"])
        or have_user(view, facts["user"], role="viewer")
        or deactivated(view, facts["user"], facts["reason"])
    )


def deactivate_many(view: PageView) -> Action | None:
    facts = view.facts
    left = [
        id for id in facts["people"] if view.state.value("select status from users where id = ?", id) != "deactivated"
    ]
    if view.page == "deactivate":
        if not {int(id) for id in view.names("chosen:")} <= set(left):
            return view.click("cancel")
        return view.choose("field:reason", view.t(facts["reason"])) or view.click("confirm")
    if step := tidy(view) or narrow(view, "users", facts["filters"]):
        return step
    here = [id for id in left if view.has(f"pick:{id}")]
    if not here:
        return view.click("next" if view.has("next") else "previous")
    return tick_exactly(view, here) or view.click("deactivate")
