"""The mailbox's medium and long tasks."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

from holotron.sites.apps.mail import plans, texts
from holotron.sites.apps.mail.reading import THREADS_PER_PAGE
from holotron.sites.apps.mail.rules import matching
from holotron.sites.apps.mail.tasks import ELSEWHERE, LOG_IN, mailbox, owner, templates
from holotron.sites.apps.mail.writing import addresses, answer_to
from holotron.sites.checks import Added, Answered, Changed, Removed, Wanted
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief

LAST = "select * from messages where id = (select max(id) from messages where thread = ?)"


def sent(subject: str, **letter: Any) -> tuple[Wanted, ...]:
    """A letter that begins a conversation."""
    return (Added("threads", subject=subject, folder="sent"), Added("messages", mine=1, **letter))


def add_letter(brief: Brief, subject: str, sender: Row, body: str, *, folder: str = "inbox", days: int = 1,
               **more: Any) -> Row:  # fmt: skip
    """One more conversation of a single letter."""
    at = datetime.datetime.combine(brief.variation.today - datetime.timedelta(days=days), datetime.time(9, 15))
    thread = brief.state.add("threads", subject=subject, folder=folder, starred=0, unread=1, kind="more")
    values = {"attachment": "", "once": 0, "code": "", "amount": 0, **more}
    message = brief.state.add(
        "messages", thread=thread, sender=sender["name"], address=sender["email"], recipients=owner(brief)["email"],
        cc="", at=at.isoformat(timespec="minutes"), body=body, mine=0, **values,
    )  # fmt: skip
    return brief.state.get("select * from messages where id = ?", message)


def organisation(brief: Brief, folder: str = "inbox") -> Row:
    """One that has written: `name`, `email`."""
    return brief.choose(
        "select distinct m.sender name, m.address email from messages m join threads t on t.id = m.thread "
        "where t.folder = ? and t.kind not in ('talk', 'spam') order by m.address",
        folder,
    )


# ------------------------------------------------------------------------------------------------------------- medium


@templates.add("compose", "medium", plan=plans.compose, about=("form that rejects",))
def compose(brief: Brief) -> Assignment:
    """The addresses are not written as the form wants them."""
    to = brief.some(3, "select * from contacts")
    copy, *to = [row["email"] for row in to]
    subject, body = brief.dice.choice(texts.SUBJECTS), brief.dice.choice(texts.BODIES)
    letter = {
        "recipients": "; ".join(to), "recipients_corrected": ", ".join(to), "cc": copy, "subject": subject,
        "body": body,
    }  # fmt: skip
    goal = brief.say(
        "Write to {to} with a copy to {copy}. Subject: “{subject}”. Text: “{body}”",
        "Send a mail to {to} (copy to {copy}) with the subject “{subject}” and the text “{body}”",
        to="; ".join(to),
        copy=copy,
        subject=subject,
        body=body,
    )
    wanted = sent(subject, recipients=addresses(", ".join(to)), cc=copy, body=body, attachment="")
    return mailbox(brief, goal, wanted, letter=letter)


@templates.add("reply-all", "medium", plan=plans.answer, about=("form",))
def reply_all(brief: Brief) -> Assignment:
    """Several people wrote; half of the seeds want an answer to the last of them only."""
    rows = brief.state.all("select * from threads where kind = 'talk' and folder in ('inbox', 'archive') order by id")
    rows = rows[: -THREADS_PER_PAGE - 1]  # not the newest ones, which are in sight
    last = {row["id"]: brief.state.get(LAST, row["id"]) for row in rows}
    thread = brief.dice.choice([row for row in rows if last[row["id"]]["cc"]])
    kind = brief.dice.choice(("reply", "reply-all", "reply-all"))
    message = last[thread["id"]]
    recipients, cc = answer_to(message, kind, owner(brief)["email"])
    body = brief.dice.choice(texts.REPLIES)
    phrasings = (
        ("Reply to everybody in the conversation “{subject}”: “{body}”",
         "Answer “{subject}” with “{body}” so that all who got the last mail get the answer too.")
        if kind == "reply-all"
        else ("Reply to {sender}, and nobody else, in the conversation “{subject}”: “{body}”",
              "Answer the last mail in “{subject}” with “{body}”; only {sender} should get it.")
    )  # fmt: skip
    goal = brief.say(*phrasings, subject=thread["subject"], body=body, sender=message["sender"])
    added = Added("messages", thread=thread["id"], recipients=recipients, cc=cc, body=body, attachment="", mine=1)
    start = brief.dice.choice(("/", *ELSEWHERE))
    return mailbox(brief, goal, (added,), start, thread=thread["id"], kind=kind, letter={"body": body})


@templates.add("forward", "medium", plan=plans.forward, about=("recall", "pagination", "form"))
def forward(brief: Brief) -> Assignment:
    """The address stands in the contacts; what is attached goes along."""
    row = brief.choose(
        "select m.*, t.subject from messages m join threads t on t.id = m.thread where attachment != '' and "
        "folder in ('inbox', 'archive')"
    )
    contact = brief.choose("select * from contacts where email != ?", row["address"])
    body = brief.dice.choice(texts.BODIES)
    goal = brief.say(
        "Forward “{subject}” with its attachment to {name} and write “{body}”. The address is in my contacts.",
        "{name} (see contacts) needs the file in “{subject}”: forward it with the text “{body}”",
        subject=row["subject"],
        name=contact["name"],
        body=body,
    )
    letter = {"recipients": contact["email"], "body": body}
    wanted = sent(f"Fwd: {row['subject']}", recipients=contact["email"], cc="", body=body, attachment=row["attachment"])
    return mailbox(brief, goal, wanted, thread=row["thread"], kind="forward", contact=contact["id"], letter=letter)


@templates.add("filter", "medium", plan=plans.rule, about=("form that rejects", "filter"))
def rule(brief: Brief) -> Assignment:
    """A rule that also acts on what is in the inbox."""
    sender, label = organisation(brief), brief.choose("select * from labels")["name"]
    action = brief.dice.choice(("label", "label", "archive", "star"))
    rule: Row = {
        "field": "from", "contains": sender["email"].partition("@")[2], "action": action,
        "label": label if action == "label" else "",
    }  # fmt: skip
    threads = matching(brief.state, rule)
    what = {"label": f"get the label {label}", "archive": "be archived", "star": "be starred"}[action]
    goal = brief.say(
        "Set up a filter: mail whose sender's address contains {contains} should {what}. Apply it to the conversations "
        "in the inbox as well.",
        "From now on mail from addresses with {contains} should {what}, and so should what is in the inbox already. "
        "Create one filter for that.",
        contains=rule["contains"],
        what=what,
    )
    wanted: list[Wanted] = [Added("filters", **rule)]
    for id in threads:
        row = brief.state.get("select * from threads where id = ?", id)
        if action == "archive":
            wanted.append(Changed("threads", id, folder="archive"))
        elif action == "star" and not row["starred"]:
            wanted.append(Changed("threads", id, starred=1))
        elif action == "label" and not brief.state.one(
            "select * from thread_labels where thread = ? and label = ?", id, label
        ):
            wanted.append(Added("thread_labels", thread=id, label=label))
    return mailbox(brief, goal, tuple(wanted), rule=rule)


@templates.add("bulk", "medium", plan=plans.bulk, about=("bulk selection",))
def bulk(brief: Brief) -> Assignment:
    """All of one sender in the inbox; what the same sender has in the archive stays."""
    sender = organisation(brief)
    for _ in range(3):
        number = brief.dice.randrange(1000, 9999)
        add_letter(brief, f"Notice {number}", sender, "For your records.", days=brief.dice.randrange(1, 40))
    older = add_letter(brief, "Welcome aboard", sender, "Good to have you.", folder="archive", days=60)
    count = brief.dice.randrange(4, 7)
    rows = brief.state.all(
        "select distinct t.id from threads t join messages m on m.thread = t.id where m.address = ? and "
        "t.folder = 'inbox' order by t.id desc",
        sender["email"],
    )
    for row in rows[count:]:
        brief.state.run("update threads set folder = 'archive' where id = ?", row["id"])
    threads = [row["id"] for row in rows[:count]]
    folder = brief.dice.choice(("archive", "trash"))
    goal = brief.say(
        "Move every conversation from {name} that is in the inbox to {folder}.",
        "Clear the inbox of everything {name} has sent me: it all goes to {folder}. Leave other folders alone.",
        name=sender["name"],
        folder={"archive": "the archive", "trash": "the trash"}[folder],
    )
    wanted = tuple(Changed("threads", id, folder=folder) for id in threads)
    return mailbox(brief, goal, wanted, threads=threads, sender=sender["name"], folder=folder, older=older["thread"])


@templates.add("count", "medium", plan=plans.count, about=("question", "pagination", "counting"))
def count(brief: Brief) -> Assignment:
    wanted, kept = (
        brief.dice.randrange(33, 39),
        "select id from threads where folder in ('inbox', 'archive') order by id",
    )
    for index, row in enumerate(brief.state.all(f"{kept} desc")):
        folder = "inbox" if index < wanted else "archive"
        brief.state.run("update threads set folder = ? where id = ?", folder, row["id"])
    kinds = {
        "have an attachment": "exists (select 1 from messages where thread = t.id and attachment != '')",
        "have more than one message": "(select count(*) from messages where thread = t.id) > 1",
        "carry at least one label": "exists (select 1 from thread_labels where thread = t.id)",
    }
    kind = brief.dice.choice(list(kinds))
    number = brief.state.value(f"select count(*) from threads t where folder = 'inbox' and {kinds[kind]}")
    total = brief.state.value("select count(*) from threads where folder = 'inbox'")
    goal = brief.say(
        "How many conversations in the inbox {kind}? Answer with a number.",
        "Count the conversations in my inbox that {kind} and answer with the number.",
        kind=kind,
    )
    others = tuple(str(n) for n in range(total + 1) if n != number)
    return mailbox(
        brief, goal, (Answered(str(number), "number", others),), start=brief.dice.choice(ELSEWHERE), place="inbox",
        threads=total, answer=str(number),
    )  # fmt: skip


@templates.add("draft", "medium", plan=plans.draft, about=("expired log-in", "form"))
def draft(brief: Brief) -> Assignment:
    row, file = brief.choose("select * from drafts"), brief.choose("select * from files")["name"]
    more = brief.choose("select * from contacts where email != ?", row["recipients"])
    brief.trouble(signed_out=brief.dice.choice((2, 3)))
    goal = brief.say(
        "Finish the draft “{subject}”: add {email} as a second recipient, attach {file} and send it.",
        "There is a draft called “{subject}”. It should also go to {email}, with the file {file} attached. Then send "
        "it.",
        subject=row["subject"],
        email=more["email"],
        file=file,
    ) + LOG_IN.format(**owner(brief))
    letter = {"recipients": f"{row['recipients']}, {more['email']}", "attachment": file}
    kept = {"recipients": addresses(letter["recipients"]), "cc": "", "body": row["body"], "attachment": file}
    wanted = (*sent(row["subject"], **kept), Removed("drafts", row["id"]))
    return mailbox(brief, goal, wanted, start="/", draft=row["id"], letter=letter)


@templates.add("invoices", "medium", plan=plans.invoices, about=("question", "recall", "counting"))
def invoices(brief: Brief) -> Assignment:
    """The amounts stand in the letters only."""
    sender, dice = organisation(brief), brief.dice
    own = "select t.id from threads t join messages m on m.thread = t.id where m.address = ? and t.kind = 'invoice'"
    for row in brief.state.all(own, sender["email"]):
        brief.state.run("delete from threads where id = ?", row["id"])
        brief.state.run("delete from messages where thread = ?", row["id"])
        brief.state.run("delete from thread_labels where thread = ?", row["id"])
    messages = []
    for _ in range(dice.randrange(3, 6)):
        number, amount = dice.randrange(1000, 9999), dice.randrange(900, 40_000)
        body = f"Please find the details of invoice {number} below. The amount due is {brief.t.money(amount)}."
        folder = dice.choice(("inbox", "inbox", "archive"))
        message = add_letter(brief, f"Invoice {number}", sender, body, folder=folder, days=dice.randrange(1, 45),
                             amount=amount)  # fmt: skip
        messages.append(message)
    total = sum(message["amount"] for message in messages)
    answer = f"{total / 100:.2f}"
    goal = brief.say(
        "Add up the amounts of all invoices that {name} has sent me. What is the total?",
        "How much do all invoices from {name} come to together? Answer with the sum.",
        name=sender["name"],
    )
    return mailbox(brief, goal, (Answered(answer, "number"),), messages=messages, answer=answer,
                   query=f"{sender['name']} Invoice")  # fmt: skip


def chain(brief: Brief, hops: int) -> Assignment:
    """A code that is shown once has to be kept in mind until it is clear, `hops` letters later, who is to get it."""
    dice = brief.dice
    project = dice.choice(texts.PROJECTS)
    contacts = brief.some(hops + 1, "select * from contacts")
    code = f"{dice.choice('BCDFGHJK')}{dice.choice('LMNPQRST')}-{dice.randrange(1000, 9999)}"
    subject = dice.choice(texts.SUBJECTS)
    order = list(enumerate(itertools.pairwise(contacts)))
    dice.shuffle(order)
    handovers: dict[int, Row] = {}
    for index, (old, new) in order:
        body = f"From now on {new['name']} looks after {project} instead of me."
        handovers[index] = add_letter(brief, f"Handover by {old['name']}", old, body,
                                      folder=dice.choice(("inbox", "archive")), days=dice.randrange(2, 45))  # fmt: skip
    vault = {"name": "Key Vault", "email": "vault@keys.example"}
    once = add_letter(brief, f"Access to {project}", vault, f"The code for {project} is {code}.", days=0, once=1)
    follow = (
        "{first} looked after {project} at first. Whoever handed it on wrote me a mail “Handover by ...” that says to "
        "whom: follow these mails to the person who looks after it now. "
        if hops
        else "{first} looks after {project}. "
    )
    goal = (
        brief.say(
            "The message on this page holds a code and is shown only once. Send the code to the person who looks after "
            "{project}: subject “{subject}”, and the code alone as the text. ",
            "Remember the code in this message; it cannot be opened a second time. Whoever looks after {project} needs "
            "it: send a mail with the subject “{subject}” and nothing but the code as its text. ",
            project=project,
            subject=subject,
        )
        + follow.format(first=contacts[0]["name"], project=project)
        + "Addresses are in my contacts."
    )
    last = contacts[-1]
    return mailbox(
        brief,
        goal,
        sent(subject, recipients=last["email"], cc="", body=code, attachment=""),
        start=f"/thread/{once['thread']}",
        once=once["id"],
        code=code,
        distance=hops,
        handovers=[handovers[index] for index in range(hops)],
        contact=last["id"],
        letter={"recipients": last["email"], "subject": subject, "body": code},
    )


@templates.add("recall", "medium", plan=plans.recall, about=("recall", "pagination", "form"))
def recall(brief: Brief) -> Assignment:
    return chain(brief, brief.dice.randrange(0, 3))


# --------------------------------------------------------------------------------------------------------------- long


@templates.add("recall-far", "long", plan=plans.recall, about=("recall", "pagination", "form"))
def recall_far(brief: Brief) -> Assignment:
    return chain(brief, brief.dice.randrange(4, 9))


@templates.add("triage", "long", plan=plans.triage, about=("form",))
def triage(brief: Brief) -> Assignment:
    label = brief.choose("select * from labels")["name"]
    free = (
        "select * from threads where folder = 'inbox' and starred = 0 and id not in (select thread from thread_labels)"
    )
    threads = brief.some(5, free)
    kinds = ["star", "label", "archive", "trash", "spam"]
    brief.dice.shuffle(kinds)
    jobs = [{"thread": row["id"], "what": what, "label": label} for row, what in zip(threads, kinds, strict=True)]
    said = {
        "star": "star “{0}”", "label": f"put the label {label} on “{{0}}”", "archive": "archive “{0}”",
        "trash": "delete “{0}”", "spam": "report “{0}” as spam",
    }  # fmt: skip
    listed = "; ".join(said[what].format(row["subject"]) for row, what in zip(threads, kinds, strict=True))
    wanted: list[Wanted] = []
    for job in jobs:
        if job["what"] == "label":
            wanted.append(Added("thread_labels", thread=job["thread"], label=label))
        elif job["what"] == "star":
            wanted.append(Changed("threads", job["thread"], starred=1))
        else:
            wanted.append(Changed("threads", job["thread"], folder=job["what"]))
    goal = brief.say("Tidy up my inbox: {listed}.", "Please do the following with my mail: {listed}.", listed=listed)
    return mailbox(brief, goal, tuple(wanted), jobs=jobs)


@templates.add("new-rules", "long", plan=plans.new_rules, about=("filter", "form", "form that rejects"))
def new_rules(brief: Brief) -> Assignment:
    """Two rules have to be there before the new mail comes."""
    dice, state = brief.dice, brief.state
    state.run("delete from filters where field = 'from'")
    taken = {row["name"] for row in state.all("select name from labels")}
    label = dice.choice([name for name in texts.LABELS if name not in taken])
    first, second, third = dice.sample(texts.ORGANISATIONS, 3)
    action = dice.choice(("archive", "star", "trash"))
    rules: list[Row] = [
        {"field": "from", "contains": first[1], "action": "label", "label": label},
        {"field": "from", "contains": second[1], "action": action, "label": ""},
    ]
    next_thread = state.value("select max(id) from threads")
    wanted: list[Wanted] = [Added("labels", name=label), *(Added("filters", **rule) for rule in rules)]
    for name, host in dice.sample([first, first, second, third], 4):
        next_thread += 1
        subject = f"Notice {dice.randrange(1000, 9999)}"
        row = state.add("incoming", sender=name, address=f"service@{host}", subject=subject, body="For your records.",
                        code="")  # fmt: skip
        folder, starred = "inbox", 0
        if host == first[1]:
            wanted.append(Added("thread_labels", thread=next_thread, label=label))
        elif host == second[1]:
            folder, starred = (action, 0) if action != "star" else ("inbox", 1)
        wanted.append(Added("threads", id=next_thread, subject=subject, folder=folder, starred=starred))
        wanted += [Added("messages", thread=next_thread), Removed("incoming", row)]
    what = {"archive": "archive it", "trash": "delete it", "star": "star it"}[action]
    goal = brief.say(
        "Create the label {label}. Then set up two filters: if the sender's address contains {first}, add the label "
        "{label}; if it contains {second}, {what}. Leave the mail that is there as it is. When both filters are "
        "there, get the new mail.",
        "I want a new label {label} and two filters: mail from {first} gets that label, and for mail from {second}: "
        "{what}. Only after that, fetch the new mail in the inbox. Do not apply the filters to what is there already.",
        label=label,
        first=first[1],
        second=second[1],
        what=what,
    )
    return mailbox(brief, goal, tuple(wanted), label=label, rules=rules)
