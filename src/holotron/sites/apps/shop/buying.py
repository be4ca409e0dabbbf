"""From the cart to an order: quantities, coupons, an address form that rejects what cannot be delivered to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holotron.sites.apps.shop.app import app
from holotron.sites.apps.shop.data import FREE_SHIPPING_FROM, SHIPPING
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row, State
from holotron.sites.web import NotFound, Visit

ADDRESS = ("name", "street", "postcode", "city")


@dataclass(frozen=True, slots=True)
class Sum:
    """What a cart costs, in cents."""

    goods: int
    coupon: str
    discount: int
    shipping: int

    @property
    def total(self) -> int:
        return self.goods - self.discount + self.shipping


def lines(state: State) -> list[Row]:
    return state.all(
        "select c.id, c.quantity, v.label, v.stock, v.id variant, p.name, p.price, p.hue, p.category, p.id product "
        "from cart c join variants v on v.id = c.variant join products p on p.id = v.product order by c.id"
    )


def add_up(state: State, shipping: str = "standard") -> Sum:
    goods = sum(line["price"] * line["quantity"] for line in lines(state))
    code = state.value("select coupon from checkout")
    coupon = state.one("select * from coupons where code = ?", code)
    discount = goods * coupon["percent"] // 100 if coupon and goods >= coupon["minimum"] else 0
    cost = 0 if goods - discount >= FREE_SHIPPING_FROM else SHIPPING[shipping]
    return Sum(goods, code, discount, cost)


@app.get("/cart")
def cart(visit: Visit) -> HttpResponse:
    return _cart_page(visit)


def _cart_page(visit: Visit) -> HttpResponse:
    return visit.page("cart.html", lines=lines(visit.state), sum=add_up(visit.state))


@app.post("/cart/<id>")
def change_quantity(visit: Visit, id: int) -> HttpResponse:
    line = visit.state.get("select c.*, v.stock from cart c join variants v on v.id = c.variant where c.id = ?", id)
    quantity = visit.number("quantity", -1)
    if quantity == 0:
        visit.state.run("delete from cart where id = ?", id)
    elif 1 <= quantity <= line["stock"]:
        visit.state.run("update cart set quantity = ? where id = ?", quantity, id)
    else:
        visit.flash(visit.t("only_left", count=line["stock"]), "bad")
    return visit.redirect("/cart")


@app.post("/cart/<id>/remove")
def remove(visit: Visit, id: int) -> HttpResponse:
    visit.state.run("delete from cart where id = ?", id)
    return visit.redirect("/cart")


@app.post("/coupon")
def coupon(visit: Visit) -> HttpResponse:
    t, goods = visit.t, add_up(visit.state).goods
    found = visit.state.one("select * from coupons where code = upper(?)", visit.text("code"))
    if found is None:
        visit.errors["code"] = t("coupon_unknown")
    elif found["ends"] < visit.episode.variation.today.isoformat():
        visit.errors["code"] = t("coupon_over")
    elif goods < found["minimum"]:
        visit.errors["code"] = t("coupon_minimum", amount=t.money(found["minimum"]))
    if visit.errors or found is None:
        visit.errors["code"] = f"{visit.text('code').upper()}: {visit.errors['code']}"
        return _cart_page(visit)
    visit.state.run("update checkout set coupon = ?", found["code"])
    visit.flash(t("coupon_taken", percent=found["percent"]))
    return visit.redirect("/cart")


@app.get("/checkout")
def checkout(visit: Visit) -> HttpResponse:
    return _checkout_page(visit)


def _checkout_page(visit: Visit) -> HttpResponse:
    if not lines(visit.state):
        return visit.redirect("/cart")
    shipping = visit.text("shipping") if visit.text("shipping") in SHIPPING else "standard"
    return visit.page("checkout.html", sum=add_up(visit.state, shipping), prices=SHIPPING)


def check_address(visit: Visit) -> None:
    visit.require(*ADDRESS)
    if "postcode" not in visit.errors and not re.fullmatch(r"\d{5}", visit.text("postcode")):
        visit.errors["postcode"] = visit.t("bad_postcode")


@app.post("/checkout")
def place_order(visit: Visit) -> HttpResponse:
    check_address(visit)
    visit.require("phone")
    if "phone" not in visit.errors and not re.fullmatch(r"\d{5,15}", visit.text("phone")):
        visit.errors["phone"] = visit.t("bad_phone")
    bought, shipping = lines(visit.state), visit.text("shipping")
    if shipping not in SHIPPING or not bought:
        raise NotFound("nothing to order")
    if visit.errors:
        return _checkout_page(visit)
    total = add_up(visit.state, shipping)
    last = visit.state.value("select max(cast(number as int)) from orders")
    order = visit.state.add(
        "orders", number=str(last + 7), user=visit.session.user, day=visit.episode.variation.today.isoformat(),
        status="processing", total=total.total, coupon=total.coupon, phone=visit.text("phone"), shipping=shipping,
        note=visit.text("note"), tracking="", **{name: visit.text(name) for name in ADDRESS},
    )  # fmt: skip
    for line in bought:
        visit.state.add("order_items", orders=order, variant=line["variant"], quantity=line["quantity"],
                        price=line["price"])  # fmt: skip
        visit.state.run("update variants set stock = stock - ? where id = ?", line["quantity"], line["variant"])
    visit.state.run("delete from cart")
    visit.state.run("update checkout set coupon = ''")
    visit.flash(visit.t("order_done", number=last + 7))
    return visit.redirect("/done")


@app.get("/done")
def done(visit: Visit) -> HttpResponse:
    return visit.page("done.html")
