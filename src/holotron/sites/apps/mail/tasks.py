"""What is asked of somebody's mailbox: what all templates need, and the short ones."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.mail import plans, texts
from holotron.sites.apps.mail.words import WORDS
from holotron.sites.checks import IMPOSSIBLE, Answered, Changed
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief, Templates

templates = Templates("mail")

LOG_IN = " My log-in is {email} with the password {password}."
ELSEWHERE = ("/contacts", "/settings", "/folder/drafts", "/labels")  # no conversation is in sight
PLACES_TO_START = ("/", "/", "/folder/archive", "/folder/sent", "/contacts", "/folder/starred")


def english(key: str) -> str:
    """Goals are in English whatever the mailbox's language is."""
    return WORDS[key][0]


def owner(brief: Brief) -> Row:
    return brief.state.get("select * from users")


def mailbox(brief: Brief, goal: str, wanted: tuple[Any, ...], start: str | None = None, **facts: Any) -> Assignment:
    """Every task is for the mailbox's owner, who is signed in."""
    user = owner(brief)
    return Assignment(
        goal=goal,
        wanted=wanted,
        facts={"login": user, **facts},
        start=brief.dice.choice(PLACES_TO_START) if start is None else start,
        signed_in=user["id"],
    )


@templates.add("star", "short", plan=plans.star)
def star(brief: Brief) -> Assignment:
    value = brief.dice.randrange(2)
    thread = brief.choose("select * from threads where folder in ('inbox', 'archive') and starred = ?", 1 - value)
    phrasings = (
        ("Star the conversation “{subject}”.", "Put a star on “{subject}”.", "Mark “{subject}” with a star for me.")
        if value
        else ("Remove the star from “{subject}”.", "“{subject}” no longer needs its star: remove it.")
    )
    goal = brief.say(*phrasings, subject=thread["subject"])
    wanted = (Changed("threads", thread["id"], starred=value),)
    return mailbox(brief, goal, wanted, brief.dice.choice(ELSEWHERE), thread=thread["id"], value=value)


@templates.add("move", "short", plan=plans.move)
def move(brief: Brief) -> Assignment:
    thread = brief.choose(
        "select t.*, (select sender from messages where thread = t.id order by id) sender from threads t "
        "where folder = 'inbox'"
    )
    folder = brief.dice.choice(("archive", "spam", "trash"))
    what = {
        "archive": (
            "Archive “{subject}” from {sender}.",
            "Move the conversation “{subject}” ({sender}) to the archive.",
        ),
        "spam": ("Report “{subject}” from {sender} as spam.", "“{subject}” by {sender} is spam, report it as such."),
        "trash": ("Delete “{subject}” from {sender}.", "Move the conversation “{subject}” ({sender}) to the trash."),
    }[folder]
    return mailbox(
        brief,
        brief.say(*what, subject=thread["subject"], sender=thread["sender"]),
        (Changed("threads", thread["id"], folder=folder),),
        thread=thread["id"],
        folder=folder,
    )


@templates.add("restore", "short", plan=plans.move, about=("pagination",))
def restore(brief: Brief) -> Assignment:
    """From a folder that search does not look into."""
    folder = brief.dice.choice(("trash", "spam"))
    for thread in brief.some(7, "select * from threads where folder in ('archive', 'inbox')"):
        brief.state.run("update threads set folder = ? where id = ?", folder, thread["id"])
    thread = brief.choose("select * from threads where folder = ?", folder)
    return mailbox(
        brief,
        brief.say(
            "The conversation “{subject}” was moved to {folder} by mistake. Put it back into the inbox.",
            "Get “{subject}” out of {folder} and into the inbox again.",
            "“{subject}” should not be in {folder}: move it to the inbox.",
            subject=thread["subject"],
            folder=english(folder).lower(),
        ),
        (Changed("threads", thread["id"], folder="inbox"),),
        thread=thread["id"],
        folder="inbox",
    )


@templates.add("code", "short", plan=plans.read_code, about=("question", "slow page"))
def code(brief: Brief) -> Assignment:
    message = brief.choose(
        "select m.*, t.subject from messages m join threads t on t.id = m.thread where m.code != '' and "
        "t.folder in ('inbox', 'archive')"
    )
    others = brief.state.all("select distinct code from messages where code not in ('', ?)", message["code"])
    brief.trouble(slow="/thread")
    return mailbox(
        brief,
        brief.say(
            "Which code is in the mail “{subject}” from {sender}?",
            "{sender} wrote to me (“{subject}”). What is the code in it?",
            "Find the code that {sender} sent me in “{subject}” and answer with it.",
            subject=message["subject"],
            sender=message["sender"],
        ),
        (Answered(message["code"], others=tuple(row["code"] for row in others)),),
        message=message,
        answer=message["code"],
    )


@templates.add("settings", "short", plan=plans.settings, about=("form",))
def settings(brief: Brief) -> Assignment:
    user = owner(brief)
    text = brief.dice.choice(texts.SIGNATURES)
    if brief.dice.random() < 0.5:
        changed: dict[str, Any] = {"signature": text}
        goal = brief.say("Set my signature to “{text}”.", "My mails should end with the signature “{text}”.", text=text)
    else:
        changed = {"away": 1, "away_text": text}
        goal = brief.say(
            "Turn on the automatic reply for when I am away, with the text “{text}”.",
            "I am away from tomorrow: switch on the automatic reply. It should say “{text}”.",
            text=text,
        )
    values = {name: user[name] for name in ("signature", "away", "away_text")} | changed
    return mailbox(brief, goal, (Changed("users", user["id"], **changed),), values=values)


@templates.add("maybe", "short", plan=plans.maybe, about=("impossible",))
def maybe(brief: Brief) -> Assignment:
    """For half of the seeds nobody has sent such a file."""
    row = brief.choose(
        "select m.*, t.subject from messages m join threads t on t.id = m.thread where attachment != '' and "
        "starred = 0 and folder in ('inbox', 'archive')"
    )
    missing = brief.dice.random() < 0.5
    file = row["attachment"]
    if missing:
        stem, _, rest = file.rpartition("-")
        number, _, ending = rest.partition(".")
        file = f"{stem}-{int(number) + brief.dice.randrange(1, 9)}.{ending}"
        brief.state.run("update messages set attachment = ? where attachment = ?", row["attachment"], file)
    goal = brief.say(
        'Star the conversation in which somebody sent me the file {file}. If there is none, answer "impossible".',
        'I was sent a file called {file}. Put a star on that conversation; answer "impossible" if nobody sent it.',
        file=file,
    )
    wanted = (IMPOSSIBLE,) if missing else (Changed("threads", row["thread"], starred=1),)
    start = brief.dice.choice(ELSEWHERE)
    return mailbox(brief, goal, wanted, start, thread=0 if missing else row["thread"], value=1, file=file)
