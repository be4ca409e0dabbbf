"""A customer's own pages: orders, returns, profile, addresses, yearly statement, contact form."""

from __future__ import annotations

from holotron.sites.apps.shop.app import app
from holotron.sites.apps.shop.buying import ADDRESS, check_address
from holotron.sites.apps.shop.data import REASONS
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

ORDERS_PER_PAGE = 5
TOPICS = ("delivery", "invoice", "warranty")


def _options(visit: Visit, keys: tuple[str, ...]) -> list[tuple[str, str]]:
    return [("", visit.t("please_choose")), *((key, visit.t(key)) for key in keys)]


@app.get("/account")
def account(visit: Visit) -> HttpResponse:
    visit.need_user()
    return visit.page("account.html")


@app.post("/account/profile")
def save_profile(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    visit.require("name", "phone")
    if visit.errors:
        return visit.page("account.html")
    visit.state.run("update users set name = ?, phone = ? where id = ?", visit.text("name"), visit.text("phone"),
                    user["id"])  # fmt: skip
    visit.flash(visit.t("saved"))
    return visit.redirect("/account")


@app.post("/account/notifications")
def save_notifications(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    chosen = (int("newsletter" in visit.form), int("sms" in visit.form))
    visit.state.run("update users set newsletter = ?, sms = ? where id = ?", *chosen, user["id"])
    visit.flash(visit.t("saved"))
    return visit.redirect("/account")


# ------------------------------------------------------------------------------------------------------------- orders


@app.get("/orders")
def orders(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    found = visit.state.all("select * from orders where user = ? order by day desc, id desc", user["id"])
    return visit.page("orders.html", split=visit.split(found, ORDERS_PER_PAGE))


def _order(visit: Visit, id: int) -> Row:
    return visit.state.get("select * from orders where id = ? and user = ?", id, visit.need_user()["id"])


@app.get("/orders/<id>")
def order(visit: Visit, id: int) -> HttpResponse:
    order = _order(visit, id)
    items = visit.state.all(
        "select i.*, v.label, p.name, p.hue, p.category, p.id product, r.id returned from order_items i "
        "join variants v on v.id = i.variant join products p on p.id = v.product "
        "left join returns r on r.item = i.id where i.orders = ? order by i.id",
        id,
    )
    return visit.page("order.html", order=order, items=items)


@app.get("/orders/<id>/invoice")
def invoice(visit: Visit, id: int) -> HttpResponse:
    order, t = _order(visit, id), visit.t
    lines = (visit.episode.brand, f"{t('invoice')} {order['number']}", t.date(order["day"]), t.money(order["total"]))
    return visit.download(f"{order['number']}.txt", "\n".join(lines))


@app.post("/orders/<id>/cancel")
def cancel(visit: Visit, id: int) -> HttpResponse:
    if _order(visit, id)["status"] != "processing":
        raise NotFound("only an order in processing can be cancelled")
    visit.state.run("update orders set status = 'cancelled' where id = ?", id)
    visit.flash(visit.t("order_cancelled"))
    return visit.redirect(f"/orders/{id}")


@app.get("/returns/<id>")
def return_form(visit: Visit, id: int) -> HttpResponse:
    return _return_page(visit, id)


def _return_page(visit: Visit, id: int) -> HttpResponse:
    item = visit.state.get(
        "select i.*, v.label, p.name from order_items i join variants v on v.id = i.variant "
        "join products p on p.id = v.product where i.id = ?",
        id,
    )
    order = _order(visit, item["orders"])
    return visit.page("return.html", item=item, order=order, reasons=_options(visit, REASONS))


@app.post("/returns/<id>")
def send_return(visit: Visit, id: int) -> HttpResponse:
    item = visit.state.get("select * from order_items where id = ?", id)
    order = _order(visit, item["orders"])
    if order["status"] != "delivered" or visit.state.one("select * from returns where item = ?", id):
        raise NotFound("nothing to return")
    if visit.text("reason") not in REASONS:
        visit.errors["reason"] = visit.t("required")
    quantity = visit.number("quantity", 0)
    if not 1 <= quantity <= item["quantity"]:
        visit.errors["quantity"] = visit.t("only_left", count=item["quantity"])
    if visit.errors:
        return _return_page(visit, id)
    visit.state.add("returns", item=id, reason=visit.text("reason"), quantity=quantity)
    visit.flash(visit.t("returned"))
    return visit.redirect(f"/orders/{order['id']}")


# ---------------------------------------------------------------------------------------------------------- addresses


@app.get("/account/addresses")
def addresses(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    found = visit.state.all("select * from addresses where user = ? order by id", user["id"])
    return visit.page("addresses.html", addresses=found)


@app.get("/account/addresses/new")
def new_address(visit: Visit) -> HttpResponse:
    visit.need_user()
    return visit.page("address.html")


@app.post("/account/addresses/new")
def add_address(visit: Visit) -> HttpResponse:
    user = visit.need_user()
    check_address(visit)
    if visit.errors:
        return visit.page("address.html")
    visit.state.add("addresses", user=user["id"], main=0, **{name: visit.text(name) for name in ADDRESS})
    visit.flash(visit.t("saved"))
    return visit.redirect("/account/addresses")


@app.post("/account/addresses/<id>/main")
def make_main(visit: Visit, id: int) -> HttpResponse:
    user = visit.need_user()
    visit.state.get("select * from addresses where id = ? and user = ?", id, user["id"])
    visit.state.run("update addresses set main = (id = ?) where user = ?", id, user["id"])
    return visit.redirect("/account/addresses")


@app.post("/account/addresses/<id>/delete")
def delete_address(visit: Visit, id: int) -> HttpResponse:
    visit.state.run("delete from addresses where id = ? and user = ?", id, visit.need_user()["id"])
    return visit.redirect("/account/addresses")


# ------------------------------------------------------------------------------------------------- statement, contact


@app.get("/account/statement")
def statement(visit: Visit) -> HttpResponse:
    years = visit.state.all(
        "select substr(day, 1, 4) year, count(*) count, sum(total) spent from orders where user = ? and "
        "status != 'cancelled' group by year order by year desc",
        visit.need_user()["id"],
    )
    return visit.page("statement.html", years=years)


@app.get("/help")
def contact(visit: Visit) -> HttpResponse:
    return visit.page("contact.html", topics=_options(visit, TOPICS))


@app.post("/help")
def send_request(visit: Visit) -> HttpResponse:
    visit.require("reference", "message")
    if visit.text("topic") not in TOPICS:
        visit.errors["topic"] = visit.t("required")
    if visit.errors:
        return visit.page("contact.html", topics=_options(visit, TOPICS))
    visit.state.add("requests", topic=visit.text("topic"), reference=visit.text("reference"),
                    message=visit.text("message"))  # fmt: skip
    visit.flash(visit.t("thanks"))
    return visit.redirect("/help")
