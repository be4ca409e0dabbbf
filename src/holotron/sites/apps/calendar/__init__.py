"""A calendar: day, week, month, agenda; events that must not overlap, series, invitations, time zones, colleagues."""

from holotron.sites.apps.calendar import editing, longer_tasks, views  # noqa: F401  (they register themselves)
from holotron.sites.apps.calendar.app import app
from holotron.sites.apps.calendar.tasks import templates

__all__ = ["app", "templates"]
