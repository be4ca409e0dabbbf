"""The shop's medium and long tasks."""

from __future__ import annotations

from typing import Any

from holotron.sites.apps.shop import plans
from holotron.sites.apps.shop.account import ORDERS_PER_PAGE, TOPICS
from holotron.sites.apps.shop.data import REASONS, SHIPPING, STATUSES
from holotron.sites.apps.shop.tasks import IN_STOCK, LOG_IN, customer, english, fill_cart, said, start_page, templates
from holotron.sites.checks import Added, Answered, Changed, Removed, Wanted
from holotron.sites.people import address, people
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief

REVIEWS = (
    ("Happy with it", "It arrived on time and looks just like the picture."),
    ("Good, not great", "The quality is fine but the colour is paler than shown."),
    ("Daily companion", "We use it every single day and it has not let us down."),
    ("Could be better", "It works, though the edges feel a little rough to me."),
)
MESSAGES = ("Where is my parcel?", "Please send me the documents again.", "The parcel arrived open, what can I do?")


# ------------------------------------------------------------------------------------------------------------- medium


@templates.add("add", "medium", plan=plans.cart, about=("form",))
def add(brief: Brief) -> Assignment:
    variant = brief.choose(f"{IN_STOCK} and v.label != 'One size'")
    quantity = brief.dice.randrange(2, 5)
    return Assignment(
        goal=brief.say(
            "Put {quantity} of the {name} in the option {label} into my cart.",
            "Add the {name} to the cart: option {label}, quantity {quantity}.",
            "Please get {quantity} × {name} ({label}) into my cart; do not order yet.",
            quantity=quantity,
            name=variant["name"],
            label=variant["label"],
        ),
        wanted=(Added("cart", variant=variant["id"], quantity=quantity),),
        facts={"goods": {variant["id"]: quantity}},
        start=start_page(brief),
    )


@templates.add("filter", "medium", plan=plans.narrow, about=("filter", "form"))
def narrow(brief: Brief) -> Assignment:
    """The only product of a brand within a price and with enough stars."""
    products = brief.state.all("select *, cast(rating + 0.5 as int) stars from products where rating >= 2.5")
    brief.dice.shuffle(products)

    def only(product: Row, most: int) -> bool:
        rivals = brief.state.value(
            "select count(*) from products where category = ? and brand = ? and price <= ? and rating + 0.5 >= ?",
            product["category"], product["brand"], most * 100, product["stars"],
        )  # fmt: skip
        return bool(rivals == 1)

    tries = ((product, product["price"] // 100 + brief.dice.randrange(2, 8)) for product in products)
    product, most = next((product, most) for product, most in tries if only(product, most))
    stars = product["stars"]
    return Assignment(
        goal=brief.say(
            "In {category}, find the product by {brand} that costs at most {most} and has {stars} stars or more. "
            "Put it on my wish list.",
            "Save to my wish list the one product by {brand} in the category {category} with a price of up to {most} "
            "and a rating of at least {stars} stars.",
            category=english(product["category"]),
            brand=product["brand"],
            most=most,
            stars=stars,
        ),
        wanted=(Added("wishes", product=product["id"]),),
        facts={"product": product, "most": most, "stars": stars},
    )


@templates.add("coupon", "medium", plan=plans.coupon, about=("form that rejects",))
def coupon(brief: Brief) -> Assignment:
    """The two best codes do not work: one is over, one needs a larger order."""
    fill_cart(brief, 2)
    coupons = brief.state.all("select * from coupons order by id")  # two that work, one over, one too large, one over
    good, lesser, over, large, _ = coupons
    percents = sorted((row["percent"] for row in (good, lesser, over, large)), reverse=True)
    for row, percent in zip((over, large, good, lesser), percents, strict=True):
        code = f"{row['code'].rstrip('0123456789')}{percent}"
        brief.state.run("update coupons set percent = ?, code = ? where id = ?", percent, code, row["id"])
    codes = [
        brief.state.value("select code from coupons where id = ?", row["id"]) for row in (over, large, good, lesser)
    ]
    shown = codes[:]
    brief.dice.shuffle(shown)
    return Assignment(
        goal=brief.say(
            "I have the coupon codes {codes}. Not all work. Apply the one with the greatest discount that does.",
            "Use one of my coupon codes for what is in the cart: {codes}. Some are refused; of the others take the one "
            "with the highest percentage.",
            codes=", ".join(shown),
        ),
        wanted=(Changed("checkout", 1, coupon=codes[2]),),
        facts={"codes": codes},
        start=start_page(brief),
    )


def delivery(brief: Brief) -> tuple[dict[str, Any], str]:
    """An address with a phone number as people write it, and how a goal says it."""
    person = people(brief.dice, brief.t.language, 1)[0]
    place = address(brief.dice, brief.t.language, person.name)
    digits = f"0{brief.dice.randrange(10**8, 10**9)}"
    written = f"{digits[:4]} {digits[4:7]} {digits[7:]}"
    shipping = brief.dice.choice([kind for kind in SHIPPING if kind != "standard"])
    order = {
        "name": place.name, "street": place.street, "postcode": place.postcode, "city": place.city,
        "phone": digits, "phone_as_written": written, "shipping": shipping,
    }  # fmt: skip
    how = {"express": "by express", "pickup": "to be collected in store"}[shipping]
    text = f"{place.name}, {place.street}, {place.postcode} {place.city}, phone {written}, {how}"
    return order, text


def ordered(order: Row, goods: list[Row], coupon: str = "") -> tuple[Wanted, ...]:
    """An order with this address and exactly these goods."""
    kept = {name: order[name] for name in ("name", "street", "postcode", "city", "phone", "shipping")}
    items = tuple(Added("order_items", variant=row["id"], quantity=row["quantity"]) for row in goods)
    return (Added("orders", coupon=coupon, **kept), *items)


@templates.add("checkout", "medium", plan=plans.checkout, about=("form that rejects",))
def checkout(brief: Brief) -> Assignment:
    """The phone number is not written as the shop wants it."""
    lines = fill_cart(brief, brief.dice.randrange(1, 3))
    order, text = delivery(brief)
    return Assignment(
        goal=brief.say(
            "Order what is in my cart. Deliver to: {text}.",
            "Please check out with my cart as it is. Delivery: {text}.",
            "Buy everything that is in the cart. It goes to {text}.",
            text=text,
        ),
        wanted=(*ordered(order, lines), *(Removed("cart", line["line"]) for line in lines)),
        facts={"goods": {line["id"]: line["quantity"] for line in lines}, "order": order},
        start=start_page(brief),
    )


@templates.add("cancel", "medium", plan=plans.cancel, about=("expired log-in",))
def cancel(brief: Brief) -> Assignment:
    user = customer(brief)
    recent = brief.state.all("select * from orders order by day desc, id desc limit ?", ORDERS_PER_PAGE)
    order = brief.dice.choice(recent)
    for row in (order, brief.dice.choice(recent)):
        brief.state.run("update orders set status = 'processing' where id = ?", row["id"])
    brief.trouble(signed_out=brief.dice.choice((3, 4)))
    return Assignment(
        goal=brief.say("Cancel order {number}.", "I no longer want order {number}; please cancel it.",
                       number=order["number"]) + LOG_IN.format(**user),
        wanted=(Changed("orders", order["id"], status="cancelled"),),
        facts={"order": order, "login": user},
        signed_in=user["id"],
    )  # fmt: skip


@templates.add("return", "medium", plan=plans.return_item, about=("pagination", "form"))
def return_item(brief: Brief) -> Assignment:
    user = customer(brief)
    older = brief.state.all("select * from orders order by day desc, id desc")[ORDERS_PER_PAGE:]
    order = brief.dice.choice([row for row in older if row["status"] == "delivered"] or older)
    brief.state.run("update orders set status = 'delivered' where id = ?", order["id"])
    item = brief.choose(
        "select i.*, p.name from order_items i join variants v on v.id = i.variant join products p on p.id = v.product "
        "where i.orders = ?", order["id"],
    )  # fmt: skip
    reason = brief.dice.choice(REASONS)
    return Assignment(
        goal=brief.say(
            'Return the {name} from order {number}, all of them. The reason is "{reason}".',
            'Send back everything of the {name} in order {number}; give the reason "{reason}".',
            name=item["name"],
            number=order["number"],
            reason=english(reason),
        ),
        wanted=(Added("returns", item=item["id"], reason=reason, quantity=item["quantity"]),),
        facts={"order": order, "item": item, "reason": reason, "quantity": item["quantity"], "login": user},
        signed_in=user["id"],
    )


@templates.add("review", "medium", plan=plans.review, about=("form",))
def review(brief: Brief) -> Assignment:
    user, product = customer(brief), brief.choose("select * from products")
    (title, body), stars = brief.dice.choice(REVIEWS), brief.dice.randrange(2, 6)
    return Assignment(
        goal=brief.say(
            'Write a review of the {name}: {stars} stars, title "{title}", text "{body}"',
            'Rate the {name} with {stars} stars. Title of the review: "{title}". Text: "{body}"',
            name=product["name"],
            stars=stars,
            title=title,
            body=body,
        ),
        wanted=(Added("reviews", product=product["id"], stars=stars, title=title, body=body),),
        facts={"product": product, "stars": stars, "title": title, "body": body, "login": user},
        signed_in=user["id"],
        start=start_page(brief),
    )


@templates.add("recall", "medium", plan=plans.recall, about=("recall", "form", "pagination"))
def recall(brief: Brief) -> Assignment:
    """A number from an order's page has to be remembered until the contact form."""
    user = customer(brief)
    order = brief.choose("select * from orders where status in ('delivered', 'shipped')")
    topic, message = brief.dice.choice(TOPICS), brief.dice.choice(MESSAGES)
    return Assignment(
        goal=brief.say(
            'Send a message through the contact form: topic "{topic}", as reference the tracking number of order '
            '{number}, message "{message}"',
            "Look up the tracking number of order {number} and give it as the reference in the contact form, with the "
            'topic "{topic}" and the message "{message}"',
            topic=english(topic),
            number=order["number"],
            message=message,
        ),
        wanted=(Added("requests", topic=topic, reference=order["tracking"], message=message),),
        facts={"order": order, "topic": topic, "message": message, "login": user},
        signed_in=user["id"],
    )


@templates.add("count", "medium", plan=plans.count, about=("question", "pagination", "log-in", "counting"))
def count(brief: Brief) -> Assignment:
    user = customer(brief)
    status = brief.dice.choice(STATUSES)
    counts = {
        row["status"]: row["n"] for row in brief.state.all("select status, count(*) n from orders group by status")
    }
    number, total = counts.get(status, 0), sum(counts.values())
    return Assignment(
        goal=brief.say(
            'How many of my orders have the status "{status}"? Answer with a number.',
            'Count my orders that are marked "{status}" and answer with the number.',
            status=english(status),
        )
        + LOG_IN.format(**user),
        wanted=(Answered(str(number), "number", tuple(str(n) for n in range(total + 1) if n != number)),),
        facts={"orders": total, "answer": str(number), "login": user},
    )


@templates.add("wish-to-cart", "medium", plan=plans.wish_to_cart, about=("recall",))
def wish_to_cart(brief: Brief) -> Assignment:
    variants = brief.some(12, f"{IN_STOCK} and v.label != 'One size'")
    chosen = {row["product"]: row for row in variants}
    products = [
        brief.state.get("select * from products where id = ?", product)
        for product in brief.dice.sample(list(chosen), 4)
    ]
    while len({product["price"] for product in products}) < 4:
        products = [{**p, "price": p["price"] + 100 * i} for i, p in enumerate(products)]
        for product in products:
            brief.state.run("update products set price = ? where id = ?", product["price"], product["id"])
    rows = {product["id"]: brief.state.add("wishes", product=product["id"]) for product in products}
    most = brief.dice.random() < 0.5
    target = max(products, key=lambda p: p["price"]) if most else min(products, key=lambda p: p["price"])
    variant = chosen[target["id"]]
    return Assignment(
        goal=brief.say(
            "Move the {kind} item of my wish list to the cart: put one in the option {label} into the cart and remove "
            "it from the wish list.",
            "Of the things on my wish list, take the {kind} one: add it to my cart ({label}, one piece) and delete it "
            "from the list.",
            kind="most expensive" if most else "cheapest",
            label=variant["label"],
        ),
        wanted=(Added("cart", variant=variant["id"], quantity=1), Removed("wishes", rows[target["id"]])),
        facts={"product": target, "variant": variant},
    )


# --------------------------------------------------------------------------------------------------------------- long


@templates.add("big-order", "long", plan=plans.checkout, about=("form that rejects", "form"))
def big_order(brief: Brief) -> Assignment:
    goods: list[Row] = []
    for variant in brief.some(12, IN_STOCK):
        if len(goods) < 3 and variant["product"] not in {row["product"] for row in goods}:
            goods.append({**variant, "quantity": brief.dice.randrange(1, 4)})
    order, text = delivery(brief)
    coupon = brief.state.get("select * from coupons where minimum = 0 and ends > ?", brief.variation.today.isoformat())
    listed = "; ".join(f"{row['quantity']} × {said(row)}" for row in goods)
    return Assignment(
        goal=brief.say(
            "Order the following: {listed}. Use the coupon {code}. Deliver to: {text}.",
            "I need {listed}. Please order exactly that with the coupon code {code}. Delivery: {text}.",
            listed=listed,
            code=coupon["code"],
            text=text,
        ),
        wanted=ordered(order, goods, coupon["code"]),
        facts={"goods": {row["id"]: row["quantity"] for row in goods}, "order": order, "coupon": coupon["code"]},
    )


@templates.add("compare", "long", plan=plans.compare, about=("recall", "form"))
def compare(brief: Brief) -> Assignment:
    """Three prices, each on a page of its own."""
    goods: list[Row] = []
    for variant in brief.some(16, f"{IN_STOCK} and v.label != 'One size'"):
        if len(goods) < 3 and variant["price"] not in {row["price"] for row in goods}:
            goods.append(variant)
    goods.sort(key=lambda row: row["price"])
    products = [brief.state.get("select * from products where id = ?", row["product"]) for row in goods]
    shown = goods[:]
    brief.dice.shuffle(shown)
    listed = ", ".join(said(row) for row in shown)
    return Assignment(
        goal=brief.say(
            "Compare the prices of these: {listed}. Put one of the cheapest into my cart, in the option named in "
            "brackets, and the other two on my wish list.",
            "Look at {listed}. The one with the lowest price goes into the cart (one piece, in the option given), the "
            "two others go on the wish list.",
            listed=listed,
        ),
        wanted=(
            Added("cart", variant=goods[0]["id"], quantity=1),
            *(Added("wishes", product=row["product"]) for row in goods[1:]),
        ),
        facts={"products": products, "goods": {goods[0]["id"]: 1}},
        start=start_page(brief),
    )


@templates.add("address-book", "long", plan=plans.address_book, about=("form", "log-in"))
def address_book(brief: Brief) -> Assignment:
    user = customer(brief)
    first, second = (address(brief.dice, brief.t.language, user["name"]) for _ in range(2))
    new = [
        {"name": place.name, "street": place.street, "postcode": place.postcode, "city": place.city}
        for place in (first, second)
    ]
    old, other = brief.state.all("select * from addresses order by main desc, id")
    first_said, second_said = (f"{row['name']}, {row['street']}, {row['postcode']} {row['city']}" for row in new)
    return Assignment(
        goal=brief.say(
            "In my account, add two addresses: {first}; and {second}. Make the first of them the default, then delete "
            "the old address in {street}.",
            "Update my address book: I have moved to {first} (make this the default) and also use {second}. The "
            "address {street} is no longer mine, delete it.",
            first=first_said,
            second=second_said,
            street=old["street"],
        )
        + LOG_IN.format(**user),
        wanted=(
            Added("addresses", user=user["id"], main=1, **new[0]),
            Added("addresses", user=user["id"], main=0, **new[1]),
            Removed("addresses", old["id"]),
        ),
        facts={"new": new, "old": old, "other": other, "login": user},
    )
