"""How the solver shops. Every function looks at the page and the state as they are and gives the next action, or None
when there is nothing left to do."""

from __future__ import annotations

from collections.abc import Mapping

from holotron.sites.apps.shop.account import ORDERS_PER_PAGE
from holotron.sites.apps.shop.buying import ADDRESS
from holotron.sites.solver.view import PageView
from holotron.sites.state import Row
from holotron.types import Action

Goods = Mapping[int, int]  # variant -> quantity


# ---------------------------------------------------------------------------------------------------- going somewhere


def to_product(view: PageView, product: Row) -> Action | None:
    name = f"product:{product['id']}"
    if view.page == name:
        return None
    return view.click(name) if view.has(name) else view.search(product["name"])


def to_category(view: PageView, category: str) -> Action | None:
    here = view.page == "products" and view.query.get("category") == category
    return None if here else view.click(f"go:{category}")


def to_own(view: PageView, page: str) -> Action | None:
    """One of the customer's own pages: `orders`, `addresses`, `statement`, `help`."""
    names = {"profile": "account", "help": "contact"}
    if view.page == names.get(page, page):
        return None
    return view.click(f"own:{page}" if view.has(f"own:{page}") else "go:account")


def to_order(view: PageView, order: Row) -> Action | None:
    if view.page == f"order:{order['id']}":
        return None
    if view.page != "orders":
        return to_own(view, "orders")
    if view.has(f"order:{order['id']}"):
        return view.click(f"order:{order['id']}")
    rows = view.state.all("select id from orders where user = ? order by day desc, id desc", order["user"])
    wanted = [row["id"] for row in rows].index(order["id"]) // ORDERS_PER_PAGE + 1
    return view.click("next" if int(view.query.get("page", 1)) < wanted else "previous")


def to_cart(view: PageView) -> Action | None:
    return None if view.page == "cart" else view.click("go:cart")


# --------------------------------------------------------------------------------------------------------- doing things


def tidy(view: PageView) -> Action | None:
    """Undo what was put on the wish list or into the cart by mistake."""
    for change in view.strays("wishes"):
        product = (change.after or change.before or {})["product"]
        if change.before is None:
            return view.click(f"unwish:{product}") if view.page == "wishes" else view.click("go:wishes")
        return to_product(view, view.state.get("select * from products where id = ?", product)) or view.click("wish")
    for change in view.strays("cart"):
        if change.after is None:
            continue  # gone for good: a new line is a new row
        before = change.before["quantity"] if change.before else 0
        return to_cart(view) or set_line(view, change.id, before)
    return None


def set_line(view: PageView, line: int, quantity: int) -> Action:
    if quantity == 0:
        return view.click(f"remove:{line}")
    return view.fill(f"quantity:{line}", str(quantity)) or view.click(f"update:{line}")


def add(view: PageView, variant: int, quantity: int = 1) -> Action:
    """Put goods into the cart from their own page."""
    product = view.state.get("select p.* from products p join variants v on v.product = p.id where v.id = ?", variant)
    return (
        to_product(view, product)
        or view.tick(f"variant:{variant}")
        or view.fill("field:quantity", str(quantity))
        or view.click("add-to-cart")
    )


def have_in_cart(view: PageView, goods: Goods) -> Action | None:
    """Exactly these goods, whatever is in the cart now."""
    lines = view.state.all("select * from cart")
    for line in lines:
        if goods.get(line["variant"], 0) != line["quantity"]:
            return to_cart(view) or set_line(view, line["id"], goods.get(line["variant"], 0))
    missing = [variant for variant in goods if variant not in {line["variant"] for line in lines}]
    return add(view, missing[0], goods[missing[0]]) if missing else None


def use_coupon(view: PageView, code: str) -> Action | None:
    if view.state.value("select coupon from checkout") == code:
        return None
    return to_cart(view) or view.fill("field:code", code) or view.click("coupon")


def check_out(view: PageView, order: Row) -> Action:
    """Fill in the form as the goal says it; what the shop rejects is written as the shop wants it."""
    if view.page != "checkout":
        return to_cart(view) or view.click("to-checkout")
    phone = order["phone"] if view.has("wrong:phone") else order["phone_as_written"]
    for name in ADDRESS:
        if move := view.fill(f"field:{name}", order[name]):
            return move
    return (
        view.fill("field:phone", phone) or view.tick(f"field:shipping:{order['shipping']}") or view.click("place-order")
    )


def add_address(view: PageView, address: Row) -> Action:
    if view.page != "address":
        return to_own(view, "addresses") or view.click("new-address")
    for name in ADDRESS:
        if move := view.fill(f"field:{name}", address[name]):
            return move
    return view.click("save")


# ------------------------------------------------------------------------------------------------- plans of templates


def wish(view: PageView) -> Action | None:
    return tidy(view) or to_product(view, view.facts["product"]) or view.click("wish")


def unwish(view: PageView) -> Action | None:
    product = view.facts["product"]["id"]
    return tidy(view) or view.click(f"unwish:{product}" if view.page == "wishes" else "go:wishes")


def cart(view: PageView) -> Action | None:
    return tidy_wishes(view) or have_in_cart(view, view.facts["goods"])


def tidy_wishes(view: PageView) -> Action | None:
    return tidy(view) if view.strays("wishes") else None


def cheapest(view: PageView) -> Action | None:
    product, category = view.facts["product"], view.facts["category"]
    here = to_category(view, category)
    if here is None and view.query.get("sort") == "cheap":
        return view.read(f"product:{product['id']}", product["name"])
    return here or view.choose("sort", view.t("sort_cheap"))


def material(view: PageView) -> Action | None:
    product = view.facts["product"]
    return to_product(view, product) or view.read("material", product["material"])


def notifications(view: PageView) -> Action | None:
    wanted: dict[str, int] = view.facts["wanted"]
    if move := to_own(view, "profile"):
        return move
    for name, on in wanted.items():
        if move := view.tick(f"field:{name}", bool(on)):
            return move
    return view.click("save-notifications")


def statement(view: PageView) -> Action | None:
    year = view.facts["year"]
    return to_own(view, "statement") or view.read(f"spent:{year}", view.facts["answer"])


def maybe(view: PageView) -> Action | None:
    variant = view.facts["variant"]
    if variant["stock"]:
        return cart(view)
    return tidy(view) or to_product(view, view.facts["product"]) or view.read(f"variant:{variant['id']}", "impossible")


def narrow(view: PageView) -> Action | None:
    """With the filters, as the goal says them."""
    facts, product = view.facts, view.facts["product"]
    if view.page == f"product:{product['id']}":
        return tidy(view) or view.click("wish")
    away = tidy(view) or to_category(view, product["category"])
    if away is not None:
        return away
    asked = {"brand": product["brand"], "max": str(facts["most"]), "stars": str(facts["stars"])}
    if any(view.query.get(name) != value for name, value in asked.items()):
        return (
            view.choose("filter:brand", asked["brand"])
            or view.fill("filter:max", asked["max"])
            or view.choose("filter:stars", asked["stars"])
            or view.click("filter:go")
        )
    return view.click(f"product:{product['id']}")


def coupon(view: PageView) -> Action | None:
    """The highest discount first; those that the shop has rejected are not tried again."""
    tried = view.memory.setdefault("tried", [])
    if view.has("wrong:code"):
        tried += [code for code in view.facts["codes"] if code in view.get("wrong:code").text and code not in tried]
    left = [code for code in view.facts["codes"] if code not in tried]
    return tidy(view) or use_coupon(view, left[0])


def checkout(view: PageView) -> Action | None:
    goods: Goods = view.facts["goods"]
    code = view.facts.get("coupon")
    return (
        tidy_wishes(view)
        or have_in_cart(view, goods)
        or (use_coupon(view, code) if code else None)
        or check_out(view, view.facts["order"])
    )


def cancel(view: PageView) -> Action | None:
    return to_order(view, view.facts["order"]) or view.click("cancel-order")


def return_item(view: PageView) -> Action | None:
    item = view.facts["item"]
    if view.page != f"return:{item['id']}":
        return to_order(view, view.facts["order"]) or view.click(f"return:{item['id']}")
    return (
        view.choose("field:reason", view.t(view.facts["reason"]))
        or view.fill("field:quantity", str(view.facts["quantity"]))
        or view.click("send")
    )


def review(view: PageView) -> Action | None:
    facts = view.facts
    if view.page != f"review:{facts['product']['id']}":
        return tidy(view) or to_product(view, facts["product"]) or view.click("write-review")
    return (
        view.choose("field:stars", str(facts["stars"]))
        or view.fill("field:title", facts["title"])
        or view.fill("field:body", facts["body"])
        or view.click("send")
    )


def recall(view: PageView) -> Action | None:
    """Read the number where it stands, then carry it to the form."""
    if view.page == f"order:{view.facts['order']['id']}" and not view.memory.get("read"):
        if move := view.see("tracking"):
            return move
        view.memory["read"] = True
    if not view.memory.get("read"):
        return to_order(view, view.facts["order"])
    return (
        to_own(view, "help")
        or view.choose("field:topic", view.t(view.facts["topic"]))
        or view.fill("field:reference", view.facts["order"]["tracking"])
        or view.fill("field:message", view.facts["message"])
        or view.click("send")
    )


def count(view: PageView) -> Action | None:
    """Look at every page of the list before answering."""
    if move := to_own(view, "orders"):
        return move
    seen = view.memory.setdefault("seen", [])
    page = int(view.query.get("page", 1))
    orders = [f"order:{id}" for id in view.names("order:")]
    for name in orders:
        if name not in seen:
            if move := view.see(name):
                return move
            seen.append(name)
    if len(seen) == view.facts["orders"]:
        return view.answer(view.facts["answer"])
    return view.click("next" if view.has("next") else "previous") if page else None


def wish_to_cart(view: PageView) -> Action | None:
    product, variant = view.facts["product"], view.facts["variant"]
    if move := have_in_cart(view, {variant["id"]: 1}):
        return move
    if view.page != "wishes":
        return view.click("go:wishes")
    return view.click(f"unwish:{product['id']}")


def compare(view: PageView) -> Action | None:
    """See every price first; then the cheapest into the cart and the others on the wish list."""
    products: list[Row] = view.facts["products"]
    seen = view.memory.setdefault("seen", [])
    for product in products:
        if view.page == f"product:{product['id']}" and product["id"] not in seen:
            if move := view.see("price"):
                return move
            seen.append(product["id"])
    for product in products:
        if product["id"] not in seen:
            return to_product(view, product)
    if move := tidy(view):
        return move
    for product in products[1:]:
        if not view.state.one("select * from wishes where product = ?", product["id"]):
            return to_product(view, product) or view.click("wish")
    return have_in_cart(view, view.facts["goods"])


def address_book(view: PageView) -> Action | None:
    facts = view.facts
    for address in facts["new"]:
        if not view.state.one(
            "select * from addresses where street = ? and city = ?", address["street"], address["city"]
        ):
            return add_address(view, address)
    if move := to_own(view, "addresses"):
        return move
    main = view.state.get("select * from addresses where street = ?", facts["new"][0]["street"])
    return view.click(f"delete:{facts['old']['id']}" if main["main"] else f"make-main:{main['id']}")
