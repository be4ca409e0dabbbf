"""The shop's checkers: what was asked passes, and what is nearly that fails with a reason."""

from __future__ import annotations

import pytest

from tests.sites.visitor import Visitor

ADDRESS = ("name", "street", "postcode", "city")


def other(visitor: Visitor, table: str, id: int) -> int:
    return visitor.episode.state.value(f"select id from {table} where id != ? order by id", id)


def add(visitor: Visitor, variant: int, quantity: int) -> None:
    product = visitor.episode.state.value("select product from variants where id = ?", variant)
    visitor.post(f"/product/{product}/cart", variant=variant, quantity=quantity)


def check_out(visitor: Visitor, **changed: str) -> str:
    order = {**visitor.facts["order"], **changed}
    fields = {name: order[name] for name in (*ADDRESS, "phone", "shipping")}
    return visitor.post("/checkout", **fields, note="")


def test_wish() -> None:
    visitor = Visitor("shop-wish", 3)
    wanted = visitor.facts["product"]["id"]
    visitor.post(f"/product/{other(visitor, 'products', wanted)}/wish")
    assert not visitor.done() and "wishes has product" in visitor.why()
    visitor.post(f"/product/{wanted}/wish")
    assert not visitor.done() and "side effect" in visitor.why()
    visitor.post(f"/product/{other(visitor, 'products', wanted)}/wish")  # off again
    assert visitor.done()
    assert visitor.done("done") and visitor.episode.verdict().final


def test_unwish_the_wrong_one_is_not_made_good_by_saving_it_again() -> None:
    visitor = Visitor("shop-unwish", 3)
    wrong = visitor.episode.state.value("select product from wishes where product != ?", visitor.facts["product"]["id"])
    visitor.post(f"/product/{wrong}/wish")
    assert not visitor.done()
    visitor.post(f"/product/{visitor.facts['product']['id']}/wish")
    assert not visitor.done() and "side effect" in visitor.why()


@pytest.mark.parametrize("name", ["shop-add", "shop-popup"])
def test_goods_in_the_cart(name: str) -> None:
    ((variant, quantity),) = Visitor(name, 4).facts["goods"].items()
    right, more, wrong = Visitor(name, 4), Visitor(name, 4), Visitor(name, 4)
    add(right, variant, quantity)
    assert right.done()
    add(more, variant, quantity + 1)
    assert not more.done() and f"quantity {quantity + 1}" in more.why() and more.episode.verdict().partial == 0
    state = wrong.episode.state
    product = state.value("select product from variants where id = ?", variant)
    sibling = state.value("select id from variants where product = ? and id != ?", product, variant)
    state.run("update variants set stock = 9 where id = ?", sibling)
    add(wrong, sibling, quantity)
    assert not wrong.done() and "variant" in wrong.why()


def test_quantity_and_removal() -> None:
    visitor = Visitor("shop-cart-quantity", 2)
    goods, state = visitor.facts["goods"], visitor.episode.state
    line = next(row for row in state.all("select * from cart") if goods[row["variant"]] != row["quantity"])
    visitor.post(f"/cart/{line['id']}", quantity=99)  # more than there is: refused, nothing changes
    assert state.changes() == []
    visitor.post(f"/cart/{line['id']}", quantity=goods[line["variant"]])
    assert visitor.done()
    visitor.post(f"/cart/{other(visitor, 'cart', line['id'])}/remove")
    assert not visitor.done() and "side effect: cart" in visitor.why()


@pytest.mark.parametrize("seed", range(4))
def test_an_impossible_task_is_possible_for_some_seeds_and_only_the_truth_counts(seed: int) -> None:
    visitor = Visitor("shop-maybe", seed)
    variant = visitor.facts["variant"]
    if variant["stock"] == 0:
        assert visitor.done("This is impossible: it is sold out.")
        assert not visitor.done("I have put it into the cart.")
        assert "sold_out" not in visitor.get(f"/product/{variant['product']}")
        add(visitor, variant["id"], 1)
        assert visitor.episode.state.changes() == []
    else:
        assert not visitor.done("impossible")
        add(visitor, variant["id"], 1)
        assert visitor.done()


def test_both_kinds_of_the_impossible_task_occur() -> None:
    sold_out = [Visitor("shop-maybe", seed).facts["variant"]["stock"] == 0 for seed in range(20)]
    assert 4 <= sum(sold_out) <= 16


def test_questions() -> None:
    visitor = Visitor("shop-cheapest", 1)
    right = visitor.facts["product"]
    second = visitor.episode.state.value(
        "select name from products where category = ? and id != ? order by price", right["category"], right["id"]
    )
    assert visitor.done(f"It is the {right['name']}.") and not visitor.done(second)
    assert not visitor.done(f"{right['name']} or {second}") and not visitor.done() and not visitor.done("")
    counting = Visitor("shop-count", 1)
    number = int(counting.facts["answer"])
    assert counting.done(f"There are {number}.") and not counting.done(str(number + 1))


def test_coupons_are_refused_for_good_reasons() -> None:
    visitor = Visitor("shop-coupon", 1)
    over, large, good, lesser = visitor.facts["codes"]
    for code in (over, large, "NOSUCHCODE"):
        assert f"{code}: " in visitor.post("/coupon", code=code)
        assert visitor.episode.state.changes() == []
    visitor.post("/coupon", code=lesser)
    assert not visitor.done() and lesser in visitor.why()
    visitor.post("/coupon", code=good.lower())
    assert visitor.done()


def test_checkout_rejects_and_then_takes_it() -> None:
    visitor = Visitor("shop-checkout", 1)
    page = check_out(visitor, phone=visitor.facts["order"]["phone_as_written"])
    assert 'data-e="wrong:phone"' in page and visitor.facts["order"]["street"] in page
    page = check_out(visitor, postcode="12")
    assert 'data-e="wrong:postcode"' in page and visitor.episode.state.changes() == []
    check_out(visitor)
    assert visitor.done(), visitor.why()


@pytest.mark.parametrize("field", ["city", "shipping", "phone"])
def test_a_wrong_order_cannot_be_made_good(field: str) -> None:
    visitor = Visitor("shop-checkout", 1)
    order = visitor.facts["order"]
    wrong = {"city": "Elsewhere", "shipping": "standard", "phone": order["phone"] + "1"}
    check_out(visitor, **{field: wrong[field]})
    verdict = visitor.episode.verdict()
    assert not verdict.success and verdict.final and verdict.partial < 1


def test_an_order_of_other_goods_fails() -> None:
    visitor = Visitor("shop-checkout", 1)
    line = visitor.episode.state.get("select * from cart")
    visitor.post(f"/cart/{line['id']}", quantity=line["quantity"] + 1)
    check_out(visitor)
    assert not visitor.done()


def test_big_order_needs_coupon_and_all_goods() -> None:
    visitor = Visitor("shop-big-order", 1)
    for variant, quantity in visitor.facts["goods"].items():
        add(visitor, variant, quantity)
    assert not visitor.done()
    visitor.post("/coupon", code=visitor.facts["coupon"])
    check_out(visitor)
    assert visitor.done(), visitor.why()
    without = Visitor("shop-big-order", 1)
    for variant, quantity in without.facts["goods"].items():
        add(without, variant, quantity)
    check_out(without)
    assert not without.done() and "coupon ''" in without.why()


def test_cancel_only_that_order() -> None:
    visitor = Visitor("shop-cancel", 3)
    wanted, state = visitor.facts["order"]["id"], visitor.episode.state
    wrong = other(visitor, "orders", wanted)
    state.run("update orders set status = 'processing' where id = ?", wrong)
    state.mark()
    user = visitor.facts["login"]
    visitor.post(f"/orders/{wrong}/cancel")
    assert not visitor.done() and f"not {wanted}" in visitor.why()
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/orders")  # it has expired
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/orders")
    visitor.post(f"/orders/{wanted}/cancel")
    assert not visitor.done() and "side effect" in visitor.why()


def test_the_log_in_expires_and_comes_back() -> None:
    visitor = Visitor("shop-cancel", 3)
    pages = [visitor.get("/orders") for _ in range(5)]
    assert 'data-page="orders"' in pages[0] and any('data-page="sign-in"' in page for page in pages)
    user = visitor.facts["login"]
    assert 'data-e="wrong:password"' in visitor.post("/sign-in", email=user["email"], password="guess", next="/")
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/orders")
    assert all('data-page="orders"' in visitor.get("/orders") for _ in range(5))


def test_return_review_and_request() -> None:
    visitor = Visitor("shop-return", 1)
    item, facts = visitor.facts["item"]["id"], visitor.facts
    assert 'data-e="wrong:reason"' in visitor.post(f"/returns/{item}", reason="", quantity=facts["quantity"])
    visitor.post(f"/returns/{item}", reason=facts["reason"], quantity=facts["quantity"])
    assert visitor.done()

    visitor = Visitor("shop-review", 1)
    facts = visitor.facts
    form = {"stars": facts["stars"], "title": facts["title"], "body": facts["body"]}
    url = f"/product/{facts['product']['id']}/review"
    assert 'data-e="wrong:body"' in visitor.post(url, **{**form, "body": "short"})
    visitor.post(url, **{**form, "stars": facts["stars"] - 1})
    assert not visitor.done() and visitor.episode.verdict().final and "stars" in visitor.why()

    visitor = Visitor("shop-recall", 1)
    form = {"topic": visitor.facts["topic"], "message": visitor.facts["message"]}
    visitor.post("/help", **form, reference=visitor.facts["order"]["number"])  # not what was asked for
    assert not visitor.done() and visitor.episode.verdict().final


def test_wish_to_cart_compare_filter_notifications() -> None:
    visitor = Visitor("shop-wish-to-cart", 1)
    add(visitor, visitor.facts["variant"]["id"], 1)
    assert visitor.episode.verdict().partial == 0.5
    visitor.post(f"/product/{visitor.facts['product']['id']}/wish")
    assert visitor.done()

    visitor = Visitor("shop-compare", 1)
    add(visitor, next(iter(visitor.facts["goods"])), 1)
    visitor.post(f"/product/{visitor.facts['products'][1]['id']}/wish")
    assert visitor.episode.verdict().partial == pytest.approx(2 / 3)
    visitor.post(f"/product/{visitor.facts['products'][0]['id']}/wish")
    assert not visitor.done()

    visitor = Visitor("shop-notifications", 1)
    visitor.post("/account/notifications")  # all off: at most one of the two was asked for
    assert not visitor.done()
    visitor.post("/account/notifications", **{name: "on" for name, on in visitor.facts["wanted"].items() if on})
    assert visitor.done(), visitor.why()


def test_address_book() -> None:
    visitor = Visitor("shop-address-book", 1)
    user, facts, state = visitor.facts["login"], visitor.facts, visitor.episode.state
    assert 'data-page="sign-in"' in visitor.get("/account/addresses")
    visitor.post("/sign-in", email=user["email"], password=user["password"], next="/account/addresses")
    for address in facts["new"]:
        visitor.post("/account/addresses/new", **address)
    visitor.post(f"/account/addresses/{facts['old']['id']}/delete")
    assert not visitor.done() and visitor.episode.verdict().partial == pytest.approx(2 / 3)
    first = state.value("select id from addresses where street = ?", facts["new"][0]["street"])
    visitor.post(f"/account/addresses/{first}/main")
    assert visitor.done(), visitor.why()
    visitor.post(f"/account/addresses/{facts['other']['id']}/delete")
    assert not visitor.done()


def test_a_get_changes_nothing() -> None:
    visitor = Visitor("shop-return", 1)
    own = ("", "/addresses", "/addresses/1/delete", "/addresses/1/main", "/statement", "/profile")
    for path in ("/", "/products", "/product/1", "/product/1/wish", "/cart", "/checkout", "/orders", "/orders/1/cancel",
                 "/sign-out", "/help", "/no/such/page", *(f"/account{page}" for page in own)):  # fmt: skip
        visitor.get(path)
    assert visitor.episode.state.changes() == []
    assert 'data-page="account"' in visitor.get("/account")


def test_hostile_input_gets_a_page() -> None:
    visitor = Visitor("shop-wish", 1)
    for path in ("/product/999999999", "/products?page=-4&max=x&stars=9999999999999", "/products?q=%27%22%3Cscript%3E"):
        assert "<html" in visitor.get(path)
    assert "<script>alert" not in visitor.get("/products?q=<script>alert(1)</script>")
    visitor.post("/product/1/cart", variant="' or 1=1", quantity="x")
    assert visitor.episode.state.value("select count(*) from cart") == 0
