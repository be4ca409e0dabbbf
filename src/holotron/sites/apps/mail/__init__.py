"""Mail: folders with pages, conversations, replies and forwards, drafts, labels, search, rules that act on mail."""

from holotron.sites.apps.mail import longer_tasks, reading, rules, writing  # noqa: F401  (they register themselves)
from holotron.sites.apps.mail.app import app
from holotron.sites.apps.mail.tasks import templates

__all__ = ["app", "templates"]
