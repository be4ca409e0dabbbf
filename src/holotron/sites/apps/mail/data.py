"""What a mailbox holds: conversations in folders, contacts, labels, drafts, files to attach, rules, mail to come."""

from __future__ import annotations

import datetime

from holotron.sites.apps.mail import texts
from holotron.sites.people import Person, password, people
from holotron.sites.tasks import Brief

# A conversation is in one folder. Labels are known by their names. `once`: a letter that is shown a single time.
# `code` and `amount` repeat what the text says, for tasks.
SCHEMA = """
create table users (id integer primary key, name text, email text, password text, signature text, away int,
  away_text text);
create table contacts (id integer primary key, name text, email text, company text, phone text);
create table threads (id integer primary key, subject text, folder text, starred int, unread int, kind text);
create table messages (id integer primary key, thread int, sender text, address text, recipients text, cc text, at text,
  body text, attachment text, mine int, once int, code text, amount int);
create table labels (id integer primary key, name text, hue int);
create table thread_labels (id integer primary key, thread int, label text);
create table drafts (id integer primary key, kind text, thread int, recipients text, cc text, subject text, body text,
  attachment text);
create table filters (id integer primary key, field text, contains text, action text, label text);
create table files (id integer primary key, name text);
create table incoming (id integer primary key, sender text, address text, subject text, body text, code text);
create table undo (id integer primary key, thread int, folder text);
create index messages_thread on messages (thread);
"""

FOLDERS = ("inbox", "archive", "sent", "spam", "trash")
FIELDS = ("from", "subject")
ACTIONS = ("label", "archive", "trash", "star")


def fill(brief: Brief) -> None:
    dice, state = brief.dice, brief.state
    me, *others = people(dice, brief.t.language, 19)
    state.add("users", name=me.name, email=me.email, password=password(dice), signature="", away=0, away_text="")
    companies = [name for name, _ in texts.ORGANISATIONS]
    for person in others:
        phone = f"{dice.randrange(10**8, 10**9)}"
        state.add("contacts", name=person.name, email=person.email, company=dice.choice(companies), phone=phone)
    for name in dice.sample(texts.LABELS, 5):
        state.add("labels", name=name, hue=dice.randrange(360))
    for number in dice.sample(range(10, 99), 8):
        state.add("files", name=f"{dice.choice(texts.ATTACHED)}-{number}.{dice.choice(texts.ENDINGS)}")
    Letters(brief, me, others).write()
    _small_things(brief, others)


class Letters:
    """Writes conversations, oldest first, so that a later one has the larger id."""

    def __init__(self, brief: Brief, me: Person, others: list[Person]) -> None:
        self.brief, self.dice, self.me, self.others = brief, brief.dice, me, others
        self.used: set[str] = set()
        self.organisations = [
            texts.Organisation(name, f"service@{host}") for name, host in self.dice.sample(texts.ORGANISATIONS, 6)
        ]

    def write(self) -> None:
        count = self.dice.randrange(44, 58)
        minutes = sorted(self.dice.sample(range(90, 60 * 24 * 50), count), reverse=True)
        noon = datetime.datetime.combine(self.brief.variation.today, datetime.time(12))
        for ago in minutes:
            at = noon - datetime.timedelta(minutes=ago)
            folder = self.dice.choices(("inbox", "archive", "spam", "trash"), (35, 9, 4, 6))[0]
            if folder == "spam":
                self.letter(self.organisations[0], "spam", at, folder)
            elif self.dice.random() < 0.55:
                self.talk(at, folder)
            else:
                self.letter(self.dice.choice(self.organisations), "", at, folder)

    def thread(self, subject: str, folder: str, kind: str) -> int:
        dice = self.dice
        unread = int(folder in ("inbox", "spam") and dice.random() < 0.35)
        starred = int(folder in ("inbox", "archive") and dice.random() < 0.12)
        thread = self.brief.state.add("threads", subject=subject, folder=folder, starred=starred, unread=unread,
                                      kind=kind)  # fmt: skip
        if folder in ("inbox", "archive") and dice.random() < 0.25:
            label = self.brief.choose("select * from labels")["name"]
            self.brief.state.add("thread_labels", thread=thread, label=label)
        return thread

    def message(self, thread: int, sender: Person | texts.Organisation, recipients: list[str], cc: list[str],
                at: datetime.datetime, body: str, **more: str | int) -> int:  # fmt: skip
        address = sender.email if isinstance(sender, Person) else sender.address
        values = {"attachment": "", "mine": int(sender == self.me), "once": 0, "code": "", "amount": 0, **more}
        return self.brief.state.add(
            "messages", thread=thread, sender=sender.name, address=address, recipients=", ".join(sorted(recipients)),
            cc=", ".join(sorted(cc)), at=at.isoformat(timespec="minutes"), body=body, **values,
        )  # fmt: skip

    def talk(self, at: datetime.datetime, folder: str) -> None:
        """Among people: the first letter goes to me and perhaps others, then answers."""
        dice = self.dice
        subject, said = dice.choice(texts.TALKS)
        project = dice.choice(texts.PROJECTS)
        subject = subject.format(project=project)
        if subject in self.used:
            return
        self.used.add(subject)
        group = dice.sample(self.others, dice.choice((1, 2, 2, 3, 4)))
        thread = self.thread(subject, folder, "talk")
        length = dice.randrange(1, len(said) + 1)
        for index in range(length):
            # Every second letter is mine, but never the last: somebody waits for an answer.
            sender = self.me if index % 2 and index < length - 1 else group[index // 2 % len(group)]
            everybody = [person.email for person in (self.me, *group) if person != sender]
            first, rest = (everybody[:1], everybody[1:]) if sender != self.me else (everybody[:2], everybody[2:])
            attachment = ""
            if index == 0 and dice.random() < 0.35:
                name = dice.choice(texts.ATTACHED)
                attachment = f"{project.lower()}-{name}-{dice.randrange(100, 999)}.{dice.choice(texts.ENDINGS)}"
            written = at - datetime.timedelta(hours=3 * (length - 1 - index), minutes=dice.randrange(50))
            self.message(thread, sender, first, rest, written, said[index].format(project=project),
                         attachment=attachment)  # fmt: skip

    def letter(self, sender: texts.Organisation, kind: str, at: datetime.datetime, folder: str) -> None:
        """From an organisation, to me alone."""
        dice = self.dice
        number = str(dice.randrange(1000, 9999))
        if kind == "spam":
            subject = dice.choice(texts.SPAM).format(number=number)
            sender = texts.Organisation(f"Lucky {number}", f"win{number}@prizes.example")
            self.message(self.thread(subject, folder, kind), sender, [self.me.email], [], at, "Click here now!")
            return
        kind, subject, body = dice.choice(texts.LETTERS)
        amount = dice.randrange(900, 40_000)
        code = f"{dice.choice('BCDFGHJK')}{dice.choice('LMNPQRST')}{dice.randrange(1000, 9999)}"
        day = self.brief.t.date(self.brief.variation.today + datetime.timedelta(days=dice.randrange(3, 90)))
        fields = {
            "number": number, "code": code, "amount": self.brief.t.money(amount), "place": dice.choice(texts.PLACES),
            "day": day, "topic": dice.choice(texts.NEWS),
        }  # fmt: skip
        subject = subject.format(**fields)
        if subject in self.used:
            return
        self.used.add(subject)
        attachment = f"invoice-{number}.pdf" if kind == "invoice" and dice.random() < 0.5 else ""
        self.message(self.thread(subject, folder, kind), sender, [self.me.email], [], at, body.format(**fields),
                     attachment=attachment, code=code if "{code}" in body else "",
                     amount=amount if kind == "invoice" else 0)  # fmt: skip


def _small_things(brief: Brief, others: list[Person]) -> None:
    dice, state = brief.dice, brief.state
    for subject, body, person in zip(
        dice.sample(texts.SUBJECTS, 3), dice.sample(texts.BODIES, 3), others, strict=False
    ):
        state.add("drafts", kind="new", thread=0, recipients=person.email, cc="", subject=subject, body=body,
                  attachment="")  # fmt: skip
    sender = state.get("select * from messages where mine = 0 order by id desc")
    label = state.all("select * from labels order by id")[0]["name"]
    state.add("filters", field="from", contains=sender["address"], action="label", label=label)
    state.add("filters", field="subject", contains="lottery", action="trash", label="")
