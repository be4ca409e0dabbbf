"""The mailbox's checkers: what was asked passes, and what is nearly that fails with a reason."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.sites.visitor import Visitor


def row(visitor: Visitor, table: str, id: int) -> dict[str, Any]:
    return visitor.episode.state.get(f"select * from {table} where id = ?", id)


def other_thread(visitor: Visitor, *not_these: int) -> int:
    rows = visitor.episode.state.all("select id from threads where folder = 'inbox' order by id")
    return next(row["id"] for row in rows if row["id"] not in not_these)


def do(visitor: Visitor, thread: int, what: str, **more: str) -> str:
    return visitor.post(f"/thread/{thread}/mark", do=what, **more)


def send(visitor: Visitor, kind: str = "new", thread: int = 0, draft: int = 0, **letter: str) -> str:
    fields = {"recipients": "", "cc": "", "subject": "", "body": "", "attachment": "", **letter}
    return visitor.post("/send", kind=kind, thread=thread, draft=draft, do="send", **fields)


@pytest.mark.parametrize("seed", range(3))
def test_star(seed: int) -> None:
    visitor = Visitor("mail-star", seed)
    wanted = visitor.facts["thread"]
    wrong = other_thread(visitor, wanted)
    visitor.post(f"/thread/{wrong}/star")
    assert not visitor.done() and f"threads {wrong} was changed, not {wanted}" in visitor.why()
    visitor.post(f"/thread/{wanted}/star")
    assert not visitor.done() and "side effect" in visitor.why()
    visitor.post(f"/thread/{wrong}/star")
    assert visitor.done() and visitor.episode.verdict().final


@pytest.mark.parametrize("name", ["mail-move", "mail-restore"])
def test_moving(name: str) -> None:
    visitor = Visitor(name, 2)
    thread, folder = visitor.facts["thread"], visitor.facts["folder"]
    before = row(visitor, "threads", thread)["folder"]
    wrong = next(place for place in ("archive", "trash") if place not in (folder, before))
    do(visitor, thread, wrong)
    assert not visitor.done() and wrong in visitor.why()
    visitor.post("/undo")
    assert row(visitor, "threads", thread)["folder"] == before and not visitor.done()
    others = visitor.episode.state.all("select id from threads where folder = ? and id != ?", before, thread)
    visitor.post("/bulk", **{f"pick-{thread}": "on", f"pick-{others[0]['id']}": "on", "do": folder})
    assert not visitor.done() and "side effect" in visitor.why()  # one too many
    visitor.post("/undo")
    do(visitor, thread, folder)
    assert visitor.done(), visitor.why()


def test_a_code_is_answered_and_no_other() -> None:
    visitor = Visitor("mail-code", 1)
    answer = visitor.facts["answer"]
    others = visitor.episode.state.all("select distinct code from messages where code not in ('', ?)", answer)
    assert visitor.done(f"The code is {answer}.") and not visitor.done(others[0]["code"])
    assert not visitor.done(f"{answer} or {others[0]['code']}") and not visitor.done()
    visitor.get(f"/thread/{visitor.facts['message']['thread']}")  # loading first
    assert answer in visitor.get(f"/thread/{visitor.facts['message']['thread']}")
    assert answer not in visitor.get("/folder/inbox")


def test_settings() -> None:
    for seed in range(4):
        visitor = Visitor("mail-settings", seed)
        values = visitor.facts["values"]
        ticked = {"away": "on"} if values["away"] else {}
        visitor.post("/settings", signature=values["signature"] + "!", away_text=values["away_text"], **ticked)
        assert not visitor.done() and "users 1" in visitor.why()
        assert 'data-e="wrong:away_text"' in visitor.post("/settings", signature="", away="on", away_text="")
        visitor.post("/settings", signature=values["signature"], away_text=values["away_text"], **ticked)
        assert visitor.done(), visitor.why()


def test_a_file_that_nobody_sent() -> None:
    missing = 0
    for seed in range(20):
        visitor = Visitor("mail-maybe", seed)
        found = visitor.episode.state.all(
            "select m.id from messages m join threads t on t.id = m.thread where attachment = ?", visitor.facts["file"]
        )
        if visitor.facts["thread"]:
            assert found and not visitor.done("impossible")
            visitor.post(f"/thread/{visitor.facts['thread']}/star")
            assert visitor.done()
        else:
            missing += 1
            assert not found and visitor.done("impossible") and not visitor.done("done")
            visitor.post(f"/thread/{other_thread(visitor)}/star")
            assert not visitor.done("impossible")
    assert 4 <= missing <= 16


def test_a_letter_is_refused_and_then_sent() -> None:
    visitor = Visitor("mail-compose", 1)
    letter = {name: visitor.facts["letter"][name] for name in ("recipients", "cc", "subject", "body")}
    right = visitor.facts["letter"]["recipients_corrected"]
    assert 'data-e="wrong:recipients"' in send(visitor, **letter)
    assert 'data-e="wrong:subject"' in send(visitor, **{**letter, "recipients": right, "subject": ""})
    assert 'data-e="wrong:cc"' in send(visitor, **{**letter, "recipients": right, "cc": "not an address"})
    assert visitor.episode.state.changes() == []
    backwards = ", ".join(reversed(right.split(", ")))
    send(visitor, **{**letter, "recipients": backwards.upper()})
    assert visitor.done(), visitor.why()


@pytest.mark.parametrize("field", ["recipients", "cc", "body", "attachment"])
def test_a_wrong_letter_cannot_be_made_good(field: str) -> None:
    visitor = Visitor("mail-compose", 1)
    facts = visitor.facts["letter"]
    letter = {"recipients": facts["recipients_corrected"], "cc": facts["cc"], "subject": facts["subject"],
              "body": facts["body"]}  # fmt: skip
    wrong = {"recipients": facts["cc"], "cc": "", "body": facts["body"] + "?", "attachment": "plan.pdf"}
    send(visitor, **{**letter, field: wrong[field]})
    verdict = visitor.episode.verdict()
    assert not verdict.success and verdict.final and verdict.partial < 1 and field in verdict.reason


@pytest.mark.parametrize("seed", range(4))
def test_answers_go_to_whom_they_should(seed: int) -> None:
    visitor, wrong = Visitor("mail-reply-all", seed), Visitor("mail-reply-all", seed)
    thread, kind = visitor.facts["thread"], visitor.facts["kind"]
    other = "reply" if kind == "reply-all" else "reply-all"

    def answer(who: Visitor, kind: str) -> None:
        from holotron.sites.apps.mail.writing import answer_to

        last = who.episode.state.get("select * from messages where thread = ? order by id desc", thread)
        recipients, cc = answer_to(last, kind, who.facts["login"]["email"])
        assert recipients in who.get(f"/thread/{thread}/{kind}")
        send(who, kind, thread, recipients=recipients, cc=cc, subject="Re", body=who.facts["letter"]["body"])

    answer(visitor, kind)
    assert visitor.done(), visitor.why()
    answer(wrong, other)
    assert not wrong.done() and "cc" in wrong.why()


def test_forwarding_takes_the_attachment_along() -> None:
    visitor, bare = Visitor("mail-forward", 3), Visitor("mail-forward", 3)
    thread, letter = visitor.facts["thread"], visitor.facts["letter"]
    subject = f"Fwd: {row(visitor, 'threads', thread)['subject']}"
    file = visitor.episode.state.value("select max(attachment) from messages where thread = ?", thread)
    assert file in visitor.get(f"/thread/{thread}/forward")
    send(visitor, "forward", thread, subject=subject, attachment=file, **letter)
    assert visitor.done(), visitor.why()
    send(bare, "forward", thread, subject=subject, **letter)
    assert not bare.done() and "attachment" in bare.why()


@pytest.mark.parametrize("seed", range(5))
def test_a_rule_acts_on_what_is_there(seed: int) -> None:
    visitor, without = Visitor("mail-filter", seed), Visitor("mail-filter", seed)
    rule = visitor.facts["rule"]
    assert 'data-e="wrong:contains"' in visitor.post("/filters/new", **{**rule, "contains": "ab"}, existing="on")
    assert 'data-e="wrong:label"' in visitor.post("/filters/new", **{**rule, "action": "label", "label": ""})
    visitor.post("/filters/new", **rule, existing="on")
    assert visitor.done(), visitor.why()
    without.post("/filters/new", **rule)
    assert not without.done() and 0 < without.episode.verdict().partial < 1


def test_bulk() -> None:
    visitor = Visitor("mail-bulk", 1)
    threads, folder = visitor.facts["threads"], visitor.facts["folder"]
    visitor.post("/bulk", **{f"pick-{id}": "on" for id in threads[1:]}, do=folder)
    assert not visitor.done() and 0 < visitor.episode.verdict().partial < 1
    do(visitor, threads[0], folder)
    assert visitor.done(), visitor.why()
    do(visitor, visitor.facts["older"], "inbox")  # what was in the archive stays there
    assert not visitor.done() and "side effect" in visitor.why()


@pytest.mark.parametrize("name", ["mail-count", "mail-invoices"])
def test_sums_and_counts(name: str) -> None:
    visitor = Visitor(name, 2)
    answer = float(visitor.facts["answer"])
    assert visitor.done(f"{answer:g}") and not visitor.done(f"{answer + 1:g}") and not visitor.done()
    if name == "mail-invoices":
        amounts = [message["amount"] for message in visitor.facts["messages"]]
        assert round(sum(amounts) / 100, 2) == answer and not visitor.done(f"{amounts[0] / 100}")


def test_a_draft_is_finished() -> None:
    visitor, kept = Visitor("mail-draft", 1), Visitor("mail-draft", 1)
    draft = row(visitor, "drafts", visitor.facts["draft"])
    whole = {**{name: draft[name] for name in ("cc", "subject", "body")}, **visitor.facts["letter"]}
    send(visitor, draft=draft["id"], **whole)
    assert visitor.done(), visitor.why()
    send(kept, **whole)  # a copy of it: the draft is still there
    assert not kept.done() and "drafts" in kept.why()


@pytest.mark.parametrize("name", ["mail-recall", "mail-recall-far"])
def test_a_code_that_is_shown_once(name: str) -> None:
    visitor = Visitor(name, 4)
    start, code = visitor.episode.assignment.start, visitor.facts["code"]
    for page in (start, "/folder/inbox", "/search?q=code", f"{start}/reply", f"{start}/forward"):
        assert code not in visitor.get(page)  # the first look was the only one
    assert not visitor.get(f"/search?q={code}").count('data-e="thread:')
    letter = visitor.facts["letter"]
    wrong = Visitor(name, 4)
    someone = wrong.episode.state.value("select email from contacts where email != ?", letter["recipients"])
    send(wrong, **{**letter, "recipients": someone})
    assert not wrong.done() and "recipients" in wrong.why() and wrong.episode.verdict().final
    send(visitor, **letter)
    assert visitor.done(), visitor.why()


def test_a_search_knows_letters_beyond_a_to_z() -> None:
    visitor = Visitor("mail-recall-far", 104)
    found = [visitor.get(f"/search?{urlencode({'q': q})}") for q in ("Handover by Óscar Ortega", "handover óSCAR")]
    assert [page.count('data-e="thread:') for page in found] == [2, 2]


def test_distances_of_recall_differ() -> None:
    near = {Visitor("mail-recall", seed).facts["distance"] for seed in range(12)}
    far = {Visitor("mail-recall-far", seed).facts["distance"] for seed in range(12)}
    assert len(near) >= 2 and len(far) >= 3 and max(near) < min(far)


def test_triage() -> None:
    visitor = Visitor("mail-triage", 1)
    jobs = visitor.facts["jobs"]
    for job in jobs[:-1]:
        do(visitor, job["thread"], job["what"], label=job["label"])
    assert not visitor.done() and visitor.episode.verdict().partial == pytest.approx(4 / 5)
    last = jobs[-1]
    do(visitor, last["thread"], "unread" if not row(visitor, "threads", last["thread"])["unread"] else "read")
    assert not visitor.done()
    do(visitor, last["thread"], "unread" if not row(visitor, "threads", last["thread"])["unread"] else "read")
    do(visitor, last["thread"], last["what"], label=last["label"])
    assert visitor.done(), visitor.why()


def test_rules_have_to_be_there_before_the_mail_comes() -> None:
    visitor, late = Visitor("mail-new-rules", 1), Visitor("mail-new-rules", 1)
    for who in (visitor, late):
        if who is late:
            who.post("/fetch")
        who.post("/labels", name=who.facts["label"])
        assert 'data-e="wrong:name"' in who.post("/labels", name=who.facts["label"])
        for rule in who.facts["rules"]:
            who.post("/filters/new", **rule)
    visitor.post("/fetch")
    assert visitor.done(), visitor.why()
    assert not late.done() and late.episode.verdict().partial > 0.5


def test_getting_a_page_changes_nothing_and_strangers_see_nothing() -> None:
    visitor = Visitor("mail-star", 1)
    pages = ("/", "/folder/trash", "/folder/drafts", "/thread/1", "/thread/1/reply-all", "/compose", "/draft/1",
             "/filters", "/filters/new", "/labels", "/label/1", "/contacts?page=2", "/contact/1", "/settings", "/fetch",
             "/undo", "/search?q=a&sort=sender&attached=1", "/thread/1/nonsense", "/folder/nowhere")  # fmt: skip
    for page in pages:
        assert len(visitor.get(page)) < 30_000
    assert visitor.episode.state.changes() == []
    visitor.post("/sign-out")
    for page in pages:
        shown = visitor.get(page)
        assert 'data-page="sign-in"' in shown or 'data-page="not-found"' in shown


def test_hostile_input_gets_a_page() -> None:
    visitor = Visitor("mail-star", 1)
    for page in ("/thread/999999999", "/folder/x?page=-4", "/search?q=%27%22%3Cscript%3E%25", "/label/99"):
        assert "<html" in visitor.get(page)
    for form in ({"pick-1": "x", "do": "nonsense"}, {"pick-x": "on", "do": "trash"}, {"do": "trash"}):
        visitor.post("/bulk", back="//elsewhere.example", **form)
    visitor.post("/thread/1/mark", do="label", label="' or 1=1")
    assert visitor.episode.state.changes() == []
    send(visitor, recipients="a@b.example", subject="<script>alert(1)</script>", body="x")
    assert "<script>alert" not in visitor.get("/folder/sent")
