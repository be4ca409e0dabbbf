"""How each task of the shop is done, through Oscar's own links and forms. The count of steps is that of a person."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holotron.sites.checks import Answered
from tests.sites.forms import StepCounter

Plan = Callable[[StepCounter, Any], str | None]  # a browser and the assignment -> the answer


def plan_of(name: str) -> Plan:
    return PLANS[name]


def find(web: StepCounter, title: str) -> None:
    """The page of a product, by the search field that every page of the shop has."""
    web.steps += 1  # words and Enter
    web.get(f"/search/?q={title.replace(' ', '+')}")
    web.follow(next(link for link in _links(web) if re.fullmatch(rf"/catalogue/{_slug(title)}_\d+/", link)))


def put(web: StepCounter, title: str, quantity: int = 1) -> None:
    find(web, title)
    web.send("add_to_basket_form", **({"quantity": str(quantity)} if quantity > 1 else {}))


def staff(web: StepCounter, place: str) -> None:
    web.unfold()
    web.follow(f"/dashboard/{place}")


def edit_product(web: StepCounter, title: str, **fields: str) -> None:
    staff(web, "catalogue/")
    web.send("title", title=title)
    web.follow(next(link for link in _links(web) if re.match(r"/dashboard/catalogue/products/\d+/\?", link)))
    if any(name.startswith("stockrecords") for name in fields):
        web.unfold()
    web.send("create_update_product_form", "", **fields)


def open_order(web: StepCounter, number: str) -> None:
    staff(web, "orders/")
    web.follow(f"/dashboard/orders/{number}/")


def set_status(web: StepCounter, status: str) -> None:
    web.send("order_status_form", new_status=status)


def note(web: StepCounter, text: str) -> None:
    web.unfold()
    web.send("order_note_form", message=text)


def wish(web: StepCounter, title: str, key: str = "bday26") -> None:
    find(web, title)
    web.unfold()
    (place,) = [link for link in _links(web) if re.fullmatch(rf"/accounts/wishlists/{key}/add/\d+/", link)]
    web.follow(place)


def account(web: StepCounter, place: str) -> None:
    web.follow("/accounts/")
    web.follow(f"/accounts/{place}")


def enter_voucher(web: StepCounter, code: str) -> None:
    web.unfold()
    web.send("/basket/vouchers/add/", code=code)


def check_out(web: StepCounter, line1: str) -> None:
    web.follow("/checkout/")
    number = re.search(rf'{re.escape(line1)}.*?name="address_id" value="(\d+)"', web.page, re.S)
    assert number is not None, "the address is not offered"
    web.steps += 1
    web.send(f"select_shipping_address_{number[1]}")
    web.follow("/checkout/preview/")
    web.send("place_order_form")


def _links(web: StepCounter) -> list[str]:
    return [link.replace("&amp;", "&") for link in re.findall(r'(?:href|action)="([^"]*)"', web.page)]


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


# ------------------------------------------------------------------------------------------------------------ the plans


def read(web: StepCounter, task: Any) -> str | None:
    """A question: go where it can be read, make sure it stands there, answer."""
    (wanted,) = task.wanted
    assert isinstance(wanted, Answered)
    goal = task.goal
    if found := re.search(r"the ((?:Alder|Birch|Cedar) [A-Z][a-z ]+?)(?: cost| weigh)", goal):
        find(web, found[1])
    elif found := re.search(r"offer a ([a-z ]+) here", goal):
        web.steps += 1
        web.get(f"/search/?q={found[1].replace(' ', '+')}")
    else:
        staff(web, "orders/")
    assert wanted.value in web.page or "How many" in goal
    web.steps += 1
    return wanted.value


def basket(web: StepCounter, task: Any) -> str | None:
    (wanted,) = task.wanted
    put(web, wanted.values["product"], wanted.values["quantity"])
    return None


def basket_maybe(web: StepCounter, task: Any) -> str | None:
    title = re.search(r"one (.+?) into", task.goal)[1]  # type: ignore[index]
    find(web, title)
    if "add_to_basket_form" in web.page:
        web.send("add_to_basket_form")
        return None
    assert isinstance(task.wanted[0], Answered)
    web.steps += 1
    return "That is impossible, it is sold out."


def alert(web: StepCounter, task: Any) -> str | None:
    find(web, task.wanted[0].values["product"])
    web.send("alert_form")
    return None


def voucher(web: StepCounter, task: Any) -> str | None:
    put(web, task.wanted[0].values["product"])
    web.follow("/basket/")
    enter_voucher(web, task.wanted[1].values["code"])
    return None


def buy(web: StepCounter, task: Any) -> str | None:
    lines = [want for want in task.wanted if want.table == "order_lines"]
    for line in lines:
        put(web, line.values["product"], line.values["quantity"])
    web.follow("/basket/")
    if code := [want.values["voucher_code"] for want in task.wanted if want.table == "order_discounts"]:
        enter_voucher(web, code[0])
    check_out(web, task.wanted[0].values["line1"])
    return None


def wish_plan(web: StepCounter, task: Any) -> str | None:
    wish(web, task.wanted[0].values["product"])
    return None


def new_list(web: StepCounter, task: Any) -> str | None:
    account(web, "wishlists/")
    web.follow("/accounts/wishlists/create/")
    web.send("visibility", name=task.wanted[0].values["name"])
    for want in task.wanted[1:]:
        wish(web, want.values["product"], "(?!bday26)[^/]+")
    return None


def last_name(web: StepCounter, task: Any) -> str | None:
    account(web, "profile/")
    web.follow("/accounts/profile/edit/")
    web.send("profile_form", last_name=task.wanted[0].values["last_name"])
    return None


def default_address(web: StepCounter, task: Any) -> str | None:
    account(web, "addresses/")
    web.unfold()
    web.follow(f"/accounts/addresses/{task.wanted[0].id}/default_for_shipping/")
    return None


def new_address(web: StepCounter, task: Any) -> str | None:
    account(web, "addresses/")
    web.follow("/accounts/addresses/add/")
    web.send("postcode", country="GB", **task.wanted[0].values)
    return None


def review(web: StepCounter, task: Any) -> str | None:
    values = task.wanted[0].values
    find(web, values["product"])
    web.follow(next(link for link in _links(web) if link.endswith("/reviews/add/#addreview")))
    web.send("add_review_form", title=values["title"], score=str(values["score"]), body=values["body"])
    return None


def order_status(web: StepCounter, task: Any) -> str | None:
    open_order(web, re.search(r"order (\d+)", task.goal)[1])  # type: ignore[index]
    want = task.wanted[0]
    if isinstance(want, Answered):
        assert 'value="Cancelled"' not in web.page
        web.steps += 1
        return "impossible"
    set_status(web, want.values["status"])
    return None


def order_note(web: StepCounter, task: Any) -> str | None:
    open_order(web, re.search(r"order (\d+)", task.goal)[1])  # type: ignore[index]
    note(web, task.wanted[0].values["message"])
    return None


def dispatch(web: StepCounter, task: Any) -> str | None:
    for number, text in re.findall(r'[Oo]rder (\d+): "([^"]+)"', task.goal):
        open_order(web, number)
        set_status(web, "Being processed")
        note(web, text)
    return None


def stock(web: StepCounter, task: Any) -> str | None:
    for title, count in re.findall(r"((?:Alder|Birch|Cedar) [A-Z][a-z ]+?) to (\d+)", task.goal):
        edit_product(web, title, **{"stockrecords-0-num_in_stock": count})
    return None


def set_price(web: StepCounter, task: Any) -> str | None:
    title = re.search(r"of the (.+?) to", task.goal)[1]  # type: ignore[index]
    edit_product(web, title, **{"stockrecords-0-price": task.wanted[0].values["price"]})
    return None


def hide(web: StepCounter, task: Any) -> str | None:
    title = re.search(r"^The (.+?) must", task.goal)[1]  # type: ignore[index]
    edit_product(web, title, is_public="")
    return None


def approve(web: StepCounter, task: Any) -> str | None:
    staff(web, "reviews/")
    web.follow(f"/dashboard/reviews/{task.wanted[0].id}/")
    web.send("create_update_review_form", status="1")
    return None


def new_category(web: StepCounter, task: Any) -> str | None:
    staff(web, "catalogue/categories/")
    web.follow("/dashboard/catalogue/categories/create/")
    web.send("create_update_category_form", name=task.wanted[0].values["name"])
    return None


def new_partner(web: StepCounter, task: Any) -> str | None:
    staff(web, "partners/")
    web.follow("/dashboard/partners/create/")
    web.send("name", name=task.wanted[0].values["name"])
    return None


def new_voucher(web: StepCounter, task: Any) -> str | None:
    values = task.wanted[0].values
    staff(web, "vouchers/")
    web.follow("/dashboard/vouchers/create/")
    ends = f"{values['ends']} 12:00:00"
    web.send(
        "create_update_voucher_form", name=values["name"], code=values["code"], end_datetime=ends,
        usage=values["usage"],
    )  # fmt: skip
    return None


def recall(web: StepCounter, task: Any) -> str | None:
    open_order(web, re.search(r"order (\d+)", task.goal)[1])  # type: ignore[index]
    title = task.wanted[0].values["product"]
    assert title in web.page
    web.follow("/catalogue/")
    wish(web, title)
    return None


PLANS: dict[str, Plan] = {
    "price": read, "weight": read, "cheapest": read, "who-ordered": read, "count-pending": read,
    "basket": basket, "basket-several": basket, "basket-maybe": basket_maybe, "alert": alert, "voucher": voucher,
    "buy": buy, "buy-three": buy, "wish": wish_plan, "new-wish-list": new_list, "gift-list": new_list,
    "last-name": last_name, "default-address": default_address, "new-address": new_address, "review": review,
    "order-status": order_status, "order-cancel-maybe": order_status, "order-note": order_note,
    "orders-dispatch": dispatch, "stock": stock, "restock": stock, "set-price": set_price, "hide-product": hide,
    "approve-review": approve, "new-category": new_category, "new-partner": new_partner, "new-voucher": new_voucher,
    "order-recall": recall,
}  # fmt: skip
