"""The administration's checkers: what was asked passes, and what is nearly that fails with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sites.visitor import Visitor


def sign_in(visitor: Visitor) -> None:
    user = visitor.facts["login"]
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/")


def picks(ids: list[int]) -> dict[str, str]:
    return {f"pick-{id}": "on" for id in ids}


def save_user(visitor: Visitor, id: int, **changed: str) -> None:
    now = visitor.episode.state.get("select * from users where id = ?", id)
    visitor.post(f"/user/{id}", **{"role": now["role"], "team": now["team"], **changed})


def send(visitor: Visitor, person: dict[str, Any], **changed: str) -> str:
    form = {name: person[name] for name in ("name", "email", "staff", "role", "team")}
    return visitor.post("/invite", **{**form, **changed})


def test_role_of_that_user_and_nothing_else() -> None:
    visitor = Visitor("admin-role", 3)
    user, role = visitor.facts["user"]["id"], visitor.facts["fields"]["role"]
    other = visitor.episode.state.value("select id from users where id not in (1, ?) and role != ?", user, role)
    save_user(visitor, other, role=role)
    assert not visitor.done() and f"not {user}" in visitor.why()
    visitor = Visitor("admin-role", 3)
    team = "Legal" if visitor.facts["user"]["team"] != "Legal" else "Sales"
    save_user(visitor, user, role=role, team=team)
    assert not visitor.done() and "otherwise as it was" in visitor.why()
    visitor = Visitor("admin-role", 3)
    visitor.post(f"/user/{user}", role="emperor", team="Legal")
    assert visitor.episode.state.changes() == []
    save_user(visitor, user, role=role)
    assert visitor.done()  # though the audit log has a new entry
    assert visitor.episode.state.changes() != [] and 'data-page="audit"' in visitor.get("/audit")


@pytest.mark.parametrize("name", ["admin-staff-number", "admin-newest", "admin-largest", "admin-who-did-it"])
@pytest.mark.parametrize("seed", [1, 2])
def test_questions_take_one_value_only(name: str, seed: int) -> None:
    visitor = Visitor(name, seed)
    (wanted,) = visitor.episode.assignment.wanted
    right, wrong = wanted.value, wanted.others[0]  # type: ignore[union-attr]
    assert visitor.done(f"The answer is {right}.")
    assert (
        not visitor.done(wrong)
        and not visitor.done(f"{wrong}, {right}")
        and not visitor.done("")
        and not visitor.done()
    )


def test_counting() -> None:
    visitor = Visitor("admin-count", 1)
    number = visitor.facts["number"]
    assert (
        visitor.done(str(number))
        and not visitor.done(str(number - 1))
        and not visitor.done(f"{number} or {number + 1}")
    )


@pytest.mark.parametrize("seed", range(5))
def test_one_setting(seed: int) -> None:
    visitor = Visitor("admin-setting", seed)
    page, values, state = visitor.facts["page"], visitor.facts["values"], visitor.episode.state
    ((name, value),) = values.items()
    now = {row["name"]: row["value"] for row in state.all("select * from settings")}
    form = {key: text for key, text in now.items() if key not in ("two_factor", "archive") or text == "1"}
    visitor.post(f"/settings/{page}", **{**form, name: "3" if name != "contact" else "nobody"})
    assert state.changes() == []  # refused
    near = value + "x" if name == "contact" else str(int(value) - 1)
    visitor.post(f"/settings/{page}", **{**form, name: near})
    assert not visitor.done() and near in visitor.why()
    visitor.post(f"/settings/{page}", **{**form, name: value})
    assert visitor.done(), visitor.why()


def test_the_longest_timeout_is_told_to_those_who_ask_for_more() -> None:
    visitor = Visitor("admin-longest", 1)
    longest, state = int(visitor.facts["longest"]), visitor.episode.state
    now = {row["name"]: row["value"] for row in state.all("select * from settings")}
    form = {"password_length": now["password_length"]} | ({"two_factor": "on"} if now["two_factor"] == "1" else {})
    assert str(longest) in visitor.post("/settings/safety", **form, timeout=longest + 1)
    assert state.changes() == []
    visitor.post("/settings/safety", **form, timeout=longest - 1)
    assert not visitor.done()
    visitor.post("/settings/safety", **form, timeout=longest)
    assert visitor.done(), visitor.why()


def test_rename_keeps_the_ending() -> None:
    visitor = Visitor("admin-rename", 1)
    file, name, state = visitor.facts["file"], visitor.facts["name"], visitor.episode.state
    sibling = state.get("select * from files where folder = ? and id != ?", file["folder"], file["id"])
    for wrong in (name.rpartition(".")[0], name + "x", "", sibling["name"]):
        assert 'data-e="wrong:name"' in visitor.post(f"/file/{file['id']}/rename", name=wrong)
    visitor.post(f"/file/{sibling['id']}/rename", name=f"other.{sibling['name'].rpartition('.')[2]}")
    visitor.post(f"/file/{file['id']}/rename", name=name)
    assert not visitor.done() and "side effect: files" in visitor.why()
    visitor.post(f"/file/{sibling['id']}/rename", name=sibling["name"])
    assert visitor.done()


@pytest.mark.parametrize("name", ["admin-permission", "admin-permissions"])
def test_permissions_are_exact(name: str) -> None:
    visitor = Visitor(name, 1)
    sign_in(visitor)
    roles = visitor.facts["roles"]
    assert 'class="flash bad"' in visitor.post("/role/owner") and visitor.episode.state.changes() == []
    for role, allowed in roles.items():
        assert not visitor.done()
        visitor.post(f"/role/{role}", **{name: "on" for name, on in allowed.items() if on})
    assert visitor.done(), visitor.why()
    visitor.post(f"/role/{role}", **{name: "on" for name, on in allowed.items() if not on})
    assert not visitor.done()


@pytest.mark.parametrize("name", ["admin-invite", "admin-onboard"])
def test_invitations(name: str) -> None:
    visitor = Visitor(name, 1)
    new = visitor.facts["new"]
    taken = visitor.episode.state.value("select email from users where id = 2")
    for wrong in ({"staff": new[0]["staff_as_written"]}, {"email": "x@elsewhere.example"}, {"email": taken},
                  {"email": "x"}, {"role": ""}, {"name": " "}):  # fmt: skip
        assert f'data-e="wrong:{next(iter(wrong))}"' in send(visitor, new[0], **wrong)
        assert visitor.episode.state.changes() == []
    for person in new:
        assert not visitor.done()
        send(visitor, person)
    assert visitor.done(), visitor.why()
    wrong_role = Visitor(name, 1)
    send(wrong_role, new[0], role="viewer" if new[0]["role"] != "viewer" else "editor")
    verdict = wrong_role.episode.verdict()
    assert not verdict.success and verdict.final and "role" in verdict.reason


def test_an_invited_person_cannot_sign_in_with_an_empty_password() -> None:
    visitor = Visitor("admin-invite", 1)
    (person,) = visitor.facts["new"]
    send(visitor, person)
    visitor.post("/sign-out")
    assert 'data-e="wrong:password"' in visitor.post("/sign-in", email=person["email"], password="", next="/")


def test_deactivating_asks_for_a_reason_first() -> None:
    visitor = Visitor("admin-deactivate", 1)
    user, reason, state = visitor.facts["user"]["id"], visitor.facts["reason"], visitor.episode.state
    assert 'data-page="deactivate"' in visitor.get(f"/users/deactivate?pick-{user}=on")
    assert state.changes() == []
    for _ in range(2):  # the log-in expires on the way
        sign_in(visitor)
    assert 'data-e="wrong:reason"' in visitor.post("/users/deactivate", **picks([user]), reason="")
    assert 'data-e="wrong:reason"' in visitor.post("/users/deactivate", **picks([1]), reason=reason)  # oneself
    assert state.changes() == []
    visitor.post("/users/deactivate", **picks([user]), reason=next(r for r in ("left", "security") if r != reason))
    assert not visitor.done() and "reason" in visitor.why()
    visitor.post(f"/user/{user}/reactivate")
    assert not visitor.done()
    visitor.post("/users/deactivate", **picks([user]), reason=reason)
    assert visitor.done()


def test_deactivating_many_spares_the_others() -> None:
    visitor = Visitor("admin-deactivate-many", 1)
    sign_in(visitor)
    people, reason = visitor.facts["people"], visitor.facts["reason"]
    found = visitor.get("/users?team={team}&role={role}".format(**visitor.facts["filters"]))
    assert all(f'data-e="user:{id}"' in found for id in people)
    visitor.post("/users/deactivate", **picks(people[1:]), reason=reason)
    assert not visitor.done() and 0 < visitor.episode.verdict().partial < 1
    visitor.post("/users/deactivate", **picks(people[:1]), reason=reason)
    assert visitor.done(), visitor.why()
    stranger = visitor.episode.state.value("select id from users where status = 'active' and id != 1")
    visitor.post("/users/deactivate", **picks([stranger]), reason=reason)
    assert not visitor.done() and "side effect: users" in visitor.why()


def test_moving_and_deleting_files() -> None:
    visitor = Visitor("admin-move-files", 1)
    files, folder, state = visitor.facts["files"], visitor.facts["folder"], visitor.episode.state
    elsewhere = state.value("select id from folders where id != ? and parent = 0", folder)
    visitor.post("/files/move", **picks(files), to=elsewhere, folder=0)
    assert not visitor.done() and "folder" in visitor.why()
    visitor.post("/files/move", **picks(files), to="", folder=0)
    visitor.post("/files/move", **picks(files), to=folder, folder=0)
    assert visitor.done(), visitor.why()

    visitor = Visitor("admin-clean-up", 1)
    files, state = visitor.facts["files"], visitor.episode.state
    query = "&".join(f"{name}=on" for name in picks(files))
    assert 'data-page="delete"' in visitor.get(f"/files/chosen?{query}") and state.changes() == []
    small = state.value("select id from files where folder = ? order by size", visitor.facts["folder"])
    visitor.post("/files/delete", **picks([*files, small]))
    assert not visitor.done() and "side effect: files" in visitor.why()
    visitor = Visitor("admin-clean-up", 1)
    visitor.post("/files/delete", **picks(files))
    assert visitor.done()


@pytest.mark.parametrize("seed", range(6))
def test_copies_fit_into_the_quota_or_cannot_be_made(seed: int) -> None:
    visitor = Visitor("admin-maybe", seed)
    file, folder = visitor.facts["file"]["id"], visitor.facts["folder"]
    page = visitor.post(f"/file/{file}/copy", to=folder)
    if visitor.facts["full"]:
        assert 'class="flash bad"' in page and visitor.episode.state.changes() == []
        assert visitor.done("impossible") and not visitor.done("I have copied it.")
    else:
        assert visitor.done() and not Visitor("admin-maybe", seed).done("impossible")


def test_both_kinds_of_the_impossible_task_occur() -> None:
    full = [Visitor("admin-maybe", seed).facts["full"] for seed in range(20)]
    assert 4 <= sum(full) <= 16


def test_recall_wants_that_number_in_that_folder() -> None:
    visitor = Visitor("admin-recall", 2)
    user, folder, names = (visitor.facts[name] for name in ("user", "folder", "names"))
    assert user["staff"] in visitor.get(f"/user/{user['id']}") and user["staff"] not in visitor.episode.goal
    for name in names:
        assert not visitor.done()
        visitor.post("/files/folder", folder=folder, folder_name=name)
    assert visitor.done()
    wrong = Visitor("admin-recall", 2)
    wrong.post("/files/folder", folder=0, folder_name=names[0])
    assert not wrong.done() and "parent 0" in wrong.why()
    made = wrong.episode.state.value("select max(id) from folders")
    wrong.post(f"/files/folder/{made}/delete")  # an empty folder can be taken back
    assert wrong.episode.state.changes() == []
    assert 'class="flash bad"' in wrong.post(f"/files/folder/{folder}/delete")
    assert wrong.episode.state.changes() == []


def test_leaver_needs_all_three() -> None:
    visitor = Visitor("admin-leaver", 1)
    user, files, folder = (visitor.facts[name] for name in ("user", "files", "folder"))
    visitor.post("/files/move", **picks(files), to=folder, folder=0)
    save_user(visitor, user["id"], role="viewer")
    assert not visitor.done()
    visitor.post("/users/deactivate", **picks([user["id"]]), reason="on_leave")
    assert not visitor.done() and "reason" in visitor.why()
    visitor.post(f"/user/{user['id']}/reactivate")
    visitor.post("/users/deactivate", **picks([user["id"]]), reason="left")
    assert visitor.done(), visitor.why()


def test_nothing_without_a_log_in() -> None:
    visitor = Visitor("admin-permissions", 2)  # starts signed out
    for url in ("/", "/users", "/user/1", "/users/deactivate?pick-2=on", "/invite", "/roles", "/role/viewer", "/files",
                "/files/chosen?pick-1=on", "/file/1", "/audit", "/settings/general"):  # fmt: skip
        assert 'data-page="sign-in"' in visitor.get(url), url
    form = {"pick-2": "on", "reason": "left", "role": "viewer", "team": "Legal", "name": "x.pdf", "to": 1, "folder": 0,
            "folder_name": "x", "timeout": 30, "password_length": 9, "organisation": "x", "contact": "a@b"}  # fmt: skip
    for url in ("/user/2", "/user/2/reactivate", "/users/deactivate", "/invite", "/role/viewer", "/files/folder",
                "/files/folder/1/delete", "/files/move", "/files/delete", "/file/1/rename", "/file/1/copy",
                "/settings/general", "/settings/safety"):  # fmt: skip
        visitor.post(url, **form)
        assert visitor.episode.state.changes() == [], url


def test_hostile_input_is_only_text() -> None:
    visitor = Visitor("admin-recall", 1)
    page = visitor.post("/files/folder", folder=0, folder_name="<b>x</b>'; drop table users")
    assert "<b>x</b>" not in page and "&lt;b&gt;" in page
    for url in ("/users?sort=password&dir=desc", "/users?role=' or 1=1", "/users?page=99", "/files?folder=999999",
                "/audit?actor=%25&action=x", "/role/nobody", "/settings/secret", "/file/999999"):  # fmt: skip
        assert "data-page" in visitor.get(url)
    assert len(visitor.episode.state.changes()) == 1
