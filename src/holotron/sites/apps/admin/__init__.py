"""The administration of a company's accounts: users with roles, invitations, permissions, audit log, files with a
quota, settings that validate, actions that ask for confirmation."""

from holotron.sites.apps.admin import accounts, files, longer_tasks, system  # noqa: F401  (they register themselves)
from holotron.sites.apps.admin.app import app
from holotron.sites.apps.admin.tasks import templates

__all__ = ["app", "templates"]
