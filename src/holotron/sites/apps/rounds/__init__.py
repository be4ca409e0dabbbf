"""Rounds through a building: a word is shown once, then come stops, then the word has to be entered. Made to measure
recall by distance (`holotron.suites.recall`): nothing on the way can be skipped, and nothing goes back."""

from holotron.sites.apps.rounds.app import app
from holotron.sites.apps.rounds.tasks import templates

__all__ = ["app", "templates"]
