"""What is asked of a customer."""

from __future__ import annotations

from holotron.sites.checks import Added
from holotron.sites.solver.view import View
from holotron.sites.tasks import Assignment, Brief, Templates
from holotron.types import Action

templates = Templates("shop")


def to_product(view: View, product: dict) -> Action | None:
    if view.page == f"product:{product['id']}":
        return None
    if view.has(f"product:{product['id']}"):
        return view.click(f"product:{product['id']}")
    return view.search(product["name"])


def plan_wish(view: View) -> Action | None:
    return to_product(view, view.facts["product"]) or view.click("wish")


@templates.add("wish", "short", plan=plan_wish)
def wish(brief: Brief) -> Assignment:
    product = brief.choose("select * from products")
    return Assignment(
        goal=brief.say("Put the {name} on my wish list.", name=product["name"]),
        wanted=(Added("wishes", product=product["id"]),),
        facts={"product": product},
    )
