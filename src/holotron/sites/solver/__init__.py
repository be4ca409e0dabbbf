"""A scripted solver for every template: proof that it can be done, and the source of demonstrations.

    view.py, page.js   what is on the page, and moves on it
    solve.py           the next action: clear what is in the way, then ask the template's plan

It acts through the same pixel actions as everyone else, on what can be seen: it scrolls to what is out of view, opens
menus, closes what covers its target, signs in again when the log-in has expired. Each action is decided from the page
as it is and the app's state, not from a script of clicks, so it also labels states that somebody else has reached.
"""

from holotron.sites.solver.solve import SitesSolver, next_action
from holotron.sites.solver.view import Lost, PageView

__all__ = ["Lost", "PageView", "SitesSolver", "next_action"]
