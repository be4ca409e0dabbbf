"""An issue tracker: lists with filters, sorting and bulk edit, a board whose cards are dragged, issue pages with
comments, labels and links, milestones, forms that reject."""

from holotron.sites.apps.tracker import browsing, issue, longer_tasks, planning  # noqa: F401  (they register themselves)
from holotron.sites.apps.tracker.app import app
from holotron.sites.apps.tracker.tasks import templates

__all__ = ["app", "templates"]
