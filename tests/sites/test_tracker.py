"""The tracker's checkers: what was asked passes, and what is nearly that fails with a reason."""

from __future__ import annotations

import pytest

from tests.sites.visitor import Visitor


def put(visitor: Visitor, issue: int, field: str, value: object) -> str:
    return visitor.post(f"/issue/{issue}/set", field=field, value=value)


def other_issue(visitor: Visitor, *taken: int) -> int:
    marks = ", ".join("?" * len(taken))
    return visitor.episode.state.value(f"select id from issues where id not in ({marks}) order by id", *taken)


def test_assign_to_the_right_person_on_the_right_issue() -> None:
    visitor = Visitor("tracker-assign", 3)
    ((issue, fields),) = visitor.facts["issues"].items()
    put(visitor, other_issue(visitor, issue), "assignee", fields["assignee"])
    assert not visitor.done() and f"not {issue}" in visitor.why()
    visitor = Visitor("tracker-assign", 3)
    put(visitor, issue, "assignee", 0)
    assert not visitor.done() and "assignee 0" in visitor.why()
    put(visitor, issue, "assignee", fields["assignee"])
    assert visitor.done()
    put(visitor, issue, "priority", "urgent")
    put(visitor, issue, "priority", "low")
    assert not visitor.done() and "otherwise as it was" in visitor.why()


@pytest.mark.parametrize("name", ["tracker-card", "tracker-stand-up"])
def test_cards_end_in_their_columns(name: str) -> None:
    visitor = Visitor(name, 4)
    issues = visitor.facts["issues"]
    for issue, fields in issues.items():
        assert not visitor.done()
        visitor.post("/board", issue=issue, status=fields["status"])  # dropped there
    assert visitor.done()
    visitor.post("/board", move=f"{issue}:done")  # by an arrow, one too far
    assert not visitor.done() and "status 'done'" in visitor.why()
    assert visitor.episode.verdict().partial == pytest.approx(1 - 1 / len(issues))


def test_a_card_cannot_be_dropped_beside_the_board() -> None:
    visitor = Visitor("tracker-card", 4)
    (issue,) = visitor.facts["issues"]
    for form in ({"issue": issue, "status": "gone"}, {"issue": "x", "status": "done"}, {"move": f"{issue}:"}, {}):
        visitor.post("/board", **form)
        assert visitor.episode.state.changes() == []


def test_questions_take_one_name_only() -> None:
    visitor = Visitor("tracker-who", 1)
    answer = visitor.facts["answer"]
    (wanted,) = visitor.episode.assignment.wanted
    wrong = wanted.others[0]  # type: ignore[union-attr]
    assert visitor.done(f"It was {answer}.")
    assert not visitor.done(wrong) and not visitor.done(f"{answer} or {wrong}") and not visitor.done()


def test_counting_and_sorting() -> None:
    visitor = Visitor("tracker-count", 2)
    number = visitor.facts["number"]
    assert visitor.done(f"There are {number} of them") and not visitor.done(str(number + 1))
    visitor = Visitor("tracker-first-due", 2)
    issue, state = visitor.facts["issue"], visitor.episode.state
    second = state.value("select key from issues where due > ? order by due", issue["due"])
    assert visitor.done(issue["key"]) and not visitor.done(second) and not visitor.done(f"{issue['key']} {second}")
    # the list itself says so: filtered and sorted, the answer is the first link
    page = visitor.get(f"/issues?project={issue['project']}&status={issue['status']}&sort=due")
    assert page.index(issue["key"]) == min(page.index(f"{issue['key'].split('-')[0]}-"), page.index(issue["key"]))


def test_a_comment_is_for_good() -> None:
    visitor = Visitor("tracker-comment", 1)
    issue, text = visitor.facts["issue"]["id"], visitor.facts["text"]
    assert 'data-e="wrong:comment"' in visitor.post(f"/issue/{issue}/comment", comment="  ")
    visitor.post(f"/issue/{issue}/comment", comment=f"{text} Thanks!")
    verdict = visitor.episode.verdict()
    assert not verdict.success and verdict.final and "Thanks" in verdict.reason
    visitor = Visitor("tracker-comment", 1)
    visitor.post(f"/issue/{issue}/comment", comment=text)
    assert visitor.done()


@pytest.mark.parametrize("seed", range(4))
def test_labels_keep_the_others(seed: int) -> None:
    visitor = Visitor("tracker-label", seed)
    issue, label, on, state = (*(visitor.facts[name] for name in ("issue", "label", "on")), visitor.episode.state)
    had = {row["label"] for row in state.all("select label from issue_labels where issue = ?", issue["id"])}
    visitor.post(f"/issue/{issue['id']}/labels", **({f"label-{label['id']}": "on"} if on else {}))  # and no other
    assert visitor.done() is (not had if on else had == {label["id"]})
    visitor = Visitor("tracker-label", seed)
    wanted = had | {label["id"]} if on else had - {label["id"]}
    visitor.post(f"/issue/{issue['id']}/labels", **{f"label-{id}": "on" for id in wanted})
    assert visitor.done(), visitor.why()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_blocked_cannot_be_done_and_saying_so_is_right(seed: int) -> None:
    visitor = Visitor("tracker-maybe", seed)
    issue = visitor.facts["issue"]["id"]
    page = put(visitor, issue, "status", "done")
    if visitor.facts["blocked"]:
        assert 'class="flash bad"' in page and visitor.episode.state.changes() == []
        visitor.post("/board", issue=issue, status="done")
        visitor.post("/issues", **{f"pick-{issue}": "on"}, status="done", back="")
        assert visitor.episode.state.changes() == []  # no other way either
        assert visitor.done("impossible") and not visitor.done("done") and not visitor.done()
    else:
        assert visitor.done() and not Visitor("tracker-maybe", seed).done("impossible")


def test_both_kinds_of_the_impossible_task_occur() -> None:
    blocked = [Visitor("tracker-maybe", seed).facts["blocked"] for seed in range(20)]
    assert 4 <= sum(blocked) <= 16


def test_create_rejects_and_then_takes_it() -> None:
    visitor = Visitor("tracker-create", 1)
    new = visitor.facts["new"]
    form = {name: new[name] for name in ("project", "title", "body", "priority", "assignee", "due")}
    assert 'data-e="wrong:due"' in visitor.post("/new", **{**form, "due": new["due_as_written"]})
    assert 'data-e="wrong:due"' in visitor.post("/new", **{**form, "due": "2001-01-01"})
    assert 'data-e="wrong:due"' in visitor.post("/new", **{**form, "due": "2027-02-31"})
    for name in ("project", "title", "body", "priority"):
        assert f'data-e="wrong:{name}"' in visitor.post("/new", **{**form, name: ""})
    assert visitor.episode.state.changes() == []
    visitor.post("/new", **form)
    assert visitor.done(), visitor.why()
    wrong = Visitor("tracker-create", 1)
    wrong.post("/new", **{**form, "assignee": 0})
    assert not wrong.done() and "assignee 0" in wrong.why() and wrong.episode.verdict().final


def test_a_link_is_the_same_from_either_side_and_not_the_other_way_round() -> None:
    for seed in range(8):
        visitor = Visitor("tracker-link", seed)
        issue, other, kind = (visitor.facts[name] for name in ("issue", "other", "kind"))
        assert 'data-e="wrong:other"' in visitor.post(f"/issue/{issue['id']}/link", kind=kind, other=issue["key"])
        assert 'data-e="wrong:other"' in visitor.post(f"/issue/{issue['id']}/link", kind=kind, other="NO-1")
        visitor.post(f"/issue/{issue['id']}/link", kind=kind, other=other["key"].lower())
        assert visitor.done(), visitor.why()
        mirrored = Visitor("tracker-link", seed)
        back = {"blocks": "blocked_by", "blocked_by": "blocks"}.get(kind, kind)
        mirrored.post(f"/issue/{other['id']}/link", kind=back, other=issue["key"])
        assert mirrored.done() is (kind != "duplicates")
        wrong = Visitor("tracker-link", seed)
        wrong.post(f"/issue/{issue['id']}/link", kind="relates", other=other["key"])
        assert not wrong.done() and "links has" in wrong.why()


def test_recall_wants_the_right_value_everywhere() -> None:
    visitor = Visitor("tracker-recall", 2)
    value, targets, source = (visitor.facts[name] for name in ("value", "targets", "source"))
    said = visitor.episode.state.all("select body from comments where issue = ?", source["id"])
    decoy = next(row["body"].split()[6] for row in said if "build" in row["body"] and value not in row["body"])
    assert value in visitor.get(f"/issue/{source['id']}") and decoy != value
    for target in targets:
        assert not visitor.done()
        visitor.post(f"/issue/{target}/comment", comment=value)
    assert visitor.done()
    wrong = Visitor("tracker-recall", 2)
    wrong.post(f"/issue/{targets[0]}/comment", comment=decoy)
    assert not wrong.done() and wrong.episode.verdict().final


def test_milestones() -> None:
    visitor = Visitor("tracker-milestone", 1)
    new, project, issue = (visitor.facts[name] for name in ("new", "project", "issue"))
    form = {"project": project, "name": new["name"]}
    assert 'data-e="wrong:due"' in visitor.post("/milestones", **form, due=new["due_as_written"])
    visitor.post("/milestones", **form, due=new["due"])
    assert visitor.episode.verdict().partial == 0.5
    made = visitor.episode.state.value("select max(id) from milestones")
    put(visitor, issue["id"], "milestone", made)
    assert visitor.done(), visitor.why()
    wrong = Visitor("tracker-milestone", 1)
    other = wrong.episode.state.value("select id from projects where id != ?", project)
    wrong.post("/milestones", **{**form, "project": other}, due=new["due"])
    assert wrong.episode.verdict().final and "project" in wrong.why()


def test_clear_milestone_leaves_what_is_done() -> None:
    visitor = Visitor("tracker-clear-milestone", 1)
    old, issues, user, state = (*(visitor.facts[name] for name in ("old", "issues", "login")), visitor.episode.state)
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/")
    assert 'class="flash bad"' in visitor.post(f"/milestones/{old['id']}/close") and state.changes() == []
    picks = {f"pick-{id}": "on" for id in issues}
    target = next(iter(issues.values()))["milestone"]
    visitor.post("/issues", **picks, milestone=target, back=f"milestone={old['id']}")
    assert not visitor.done() and "closed" in visitor.why()
    visitor.post(f"/milestones/{old['id']}/close")
    assert visitor.done(), visitor.why()
    done = state.one("select * from issues where milestone = ? and status = 'done'", old["id"])
    if done:
        state.run("update issues set milestone = ? where id = ?", target, done["id"])
        assert not visitor.done() and "side effect" in visitor.why()


def test_bulk_edit_takes_all_of_them_and_no_other() -> None:
    visitor = Visitor("tracker-bulk", 1)
    issues = visitor.facts["issues"]
    ((field, value),) = next(iter(issues.values())).items()
    assert 'class="flash bad"' in visitor.post("/issues", back="")
    some = list(issues)[1:]
    visitor.post("/issues", **{f"pick-{id}": "on" for id in some}, **{field: value}, back="")
    assert not visitor.done() and visitor.episode.verdict().partial == pytest.approx(len(some) / len(issues))
    visitor.post("/issues", **{f"pick-{id}": "on" for id in issues}, **{field: value}, back="")
    assert visitor.done(), visitor.why()
    visitor.post("/issues", **{f"pick-{other_issue(visitor, *issues)}": "on"}, status="review", back="")
    assert not visitor.done()


def test_triage_and_edit() -> None:
    visitor = Visitor("tracker-triage", 1)
    for issue, fields in visitor.facts["issues"].items():
        for field, value in fields.items():
            assert not visitor.done()
            put(visitor, issue, field, value)
    assert visitor.done()
    visitor = Visitor("tracker-edit", 1, language="en")
    issue, new, user = (visitor.facts[name] for name in ("issue", "new", "login"))
    pages = [visitor.get(f"/issue/{issue['id']}") for _ in range(5)]
    assert any('data-page="sign-in"' in page for page in pages)  # the log-in has expired
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/")
    body = issue["body"]
    visitor.post(f"/issue/{issue['id']}/edit", title=new["title"], body=body, due=issue["due"])
    assert not visitor.done() and "due" in visitor.why()
    visitor.post(f"/issue/{issue['id']}/edit", title=new["title"], body=body, due=new["due"])
    assert visitor.done(), visitor.why()


def test_nothing_without_a_log_in() -> None:
    visitor = Visitor("tracker-clear-milestone", 2)  # starts signed out
    for url in ("/", "/issues", "/board", "/issue/1", "/new", "/milestones", "/issue/1/edit", "/issue/1/link"):
        assert 'data-page="sign-in"' in visitor.get(url)
    for url in ("/issues", "/board", "/issue/1/set", "/issue/1/labels", "/issue/1/comment", "/issue/1/link", "/new",
                "/issue/1/edit", "/link/1/delete", "/milestones", "/milestones/1/close"):  # fmt: skip
        visitor.post(url, field="status", value="done", comment="x", issue=1, status="done")
        assert visitor.episode.state.changes() == [], url


def test_hostile_input_is_only_text() -> None:
    visitor = Visitor("tracker-comment", 1)
    issue = visitor.facts["issue"]["id"]
    page = visitor.post(f"/issue/{issue}/comment", comment="<script>alert(1)</script>' or 1=1 --")
    assert "<script>alert(1)" not in page and "&lt;script&gt;" in page
    for query in ("project='%20or%201=1", "label=x", "sort=drop", "page=-3", "q=%25%25", "milestone=999999999"):
        assert 'data-page="issues"' in visitor.get(f"/issues?{query}")
    put(visitor, issue, "status", "nonsense")
    put(visitor, issue, "title", "x")
    assert len(visitor.episode.state.changes()) == 1
