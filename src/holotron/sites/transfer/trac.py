"""Trac, an issue tracker with a wiki, as a transfer set.

What counts as the state are tickets, comments, wiki pages (their newest version), milestones, components and versions;
who looked at what, and when, does not. Dates are shown as dates, not as "two weeks ago", so pages stay the same.
"""

from __future__ import annotations

from holotron.sites.transfer.application import Application
from holotron.sites.transfer.trac_tasks import tasks

TRAC = Application(
    name="trac",
    title="Trac",
    packages=("Trac==1.6", "setuptools<80"),
    host="harbour.example",
    data=1,
    database="db/trac.db",
    queries={
        "ticket": "select id key, id, type, component, priority, owner, reporter, cc, version, milestone, status, "
        "coalesce(resolution, '') resolution, summary, description, keywords from ticket",
        "comment": "select ticket || '/' || oldvalue key, ticket, author, newvalue text from ticket_change "
        "where field = 'comment' and newvalue != ''",
        "wiki": "select name key, name, text from wiki w where version = "
        "(select max(version) from wiki where name = w.name)",
        "milestone": "select name key, name, case when due > 0 then date(due / 1000000, 'unixepoch') else '' end due, "
        "completed > 0 completed from milestone",
        "component": "select name key, name, coalesce(owner, '') owner from component",
        "version": "select name key, name from version",
    },
    tasks=tasks,
    irrevocable=frozenset({"ticket", "comment"}),
)
