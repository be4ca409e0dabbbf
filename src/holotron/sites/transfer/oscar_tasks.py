"""What is asked of a customer of the shop. All of it for measuring, none of it for training."""

from __future__ import annotations

import re

from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Wanted
from holotron.sites.state import Row
from holotron.sites.transfer.tasks import Assignment, TaskList, World

THINGS = ("Kettle", "Teapot", "Colander", "Towel", "Mirror", "Trowel", "Lantern", "Notebook", "Globe", "Rake")
VOUCHER = "WELCOME10"

tasks = TaskList("oscar")


def available(world: World, count: int = 1) -> list[Row]:
    """Different goods that are in stock."""
    return world.dice.sample([row for row in world.those("stock") if row["num_in_stock"] > 5], count)


def product_of(world: World, title: str) -> Row:
    return world.row("products", title=title)


# ----------------------------------------------------------------------------------------------------------- to read


@tasks.add("price", "short")
def price(world: World) -> Assignment:
    goods = world.row("stock")
    others = tuple(row["price"] for row in world.those("stock") if row["price"] != goods["price"])
    return Assignment(
        f"What does the {goods['product']} cost? Answer with the amount in pounds.",
        (Answered(goods["price"], "number", others),),
    )


@tasks.add("weight", "short")
def weight(world: World) -> Assignment:
    """It stands in the description, on the page of the product alone."""
    product = world.row("products")
    found = re.search(r"Weighs (\d+) grams", product["description"])
    assert found is not None
    return Assignment(
        f"How many grams does the {product['title']} weigh? Answer with a number.", (Answered(found[1], "number"),)
    )


@tasks.add("cheapest", "short")
def cheapest(world: World) -> Assignment:
    thing = world.dice.choice(THINGS)
    offered = sorted(
        (row for row in world.those("stock") if row["product"].endswith(f" {thing}")),
        key=lambda row: float(row["price"]),
    )
    makers = [row["product"].split()[0] for row in offered]
    return Assignment(
        f"Three makers offer a {thing.lower()} here. Whose is the cheapest? Answer with the name of the maker.",
        (Answered(makers[0], others=tuple(makers[1:])),),
    )


# ---------------------------------------------------------------------------------------------------- basket and orders


@tasks.add("basket", "short")
def basket(world: World) -> Assignment:
    (goods,) = available(world)
    return Assignment(
        f"Put one {goods['product']} into my basket.", (Added("basket", product=goods["product"], quantity=1),)
    )


@tasks.add("basket-several", "short")
def basket_several(world: World) -> Assignment:
    (goods,) = available(world)
    count = world.dice.randrange(2, 6)
    return Assignment(
        f"I need {count} pieces of the {goods['product']}: put them into my basket.",
        (Added("basket", product=goods["product"], quantity=count),),
    )


@tasks.add("basket-maybe", "short")
def basket_maybe(world: World) -> Assignment:
    """Sold out for half of the seeds."""
    if world.dice.random() < 0.5:
        goods = world.row("stock", num_in_stock=0)
        wanted: Wanted = IMPOSSIBLE
    else:
        (goods,) = available(world)
        wanted = Added("basket", product=goods["product"], quantity=1)
    return Assignment(
        f"Put one {goods['product']} into my basket. If that cannot be done, answer that it is impossible.", (wanted,)
    )


@tasks.add("alert", "short")
def alert(world: World) -> Assignment:
    goods = world.row("stock", num_in_stock=0)
    return Assignment(
        f"The {goods['product']} is sold out. Ask the shop to tell me when it is back.",
        (Added("alerts", product=goods["product"]),),
    )


@tasks.add("voucher", "medium")
def voucher(world: World) -> Assignment:
    (goods,) = available(world)
    return Assignment(
        f"Put one {goods['product']} into my basket and enter the voucher code {VOUCHER} there.",
        (Added("basket", product=goods["product"], quantity=1), Added("basket_voucher", code=VOUCHER)),
    )


@tasks.add("buy", "medium")
def buy(world: World) -> Assignment:
    (goods,) = available(world)
    address = world.row("addresses")
    return Assignment(
        f"Order one {goods['product']}, to be sent to my address in {address['line4']}.",
        (
            Added("orders", line1=address["line1"], total=goods["price"], status="Pending"),
            Added("order_lines", product=goods["product"], quantity=1),
        ),
    )


@tasks.add("buy-three", "long")
def buy_three(world: World) -> Assignment:
    """Three goods, two of them several times, a voucher, and the address that is not the usual one."""
    chosen = list(zip(available(world, 3), (1, 2, 3), strict=True))
    address = world.row("addresses", is_default_for_shipping=0)
    listed = ", ".join(f"{count} x {goods['product']}" for goods, count in chosen)
    return Assignment(
        f"Place one order for {listed}. Use the voucher code {VOUCHER}, and have it sent to {address['line1']}, "
        f"{address['line4']}.",
        (
            Added("orders", line1=address["line1"], status="Pending"),
            *(Added("order_lines", product=goods["product"], quantity=count) for goods, count in chosen),
            Added("order_discounts", voucher_code=VOUCHER),
        ),
    )


# ------------------------------------------------------------------------------------------------- account, wish lists


@tasks.add("wish", "short")
def wish(world: World) -> Assignment:
    held = {row["product"] for row in world.those("wishes")}
    product = world.dice.choice([row for row in world.those("products") if row["title"] not in held])
    return Assignment(
        f'Put the {product["title"]} on my wish list "Birthday".',
        (Added("wishes", list="Birthday", product=product["title"], quantity=1),),
    )


@tasks.add("new-wish-list", "short")
def new_wish_list(world: World) -> Assignment:
    name = world.dice.choice(("New flat", "Christmas", "Allotment", "Office"))
    return Assignment(
        f'Make a new private wish list called "{name}".', (Added("wishlists", name=name, visibility="Private"),)
    )


@tasks.add("gift-list", "long")
def gift_list(world: World) -> Assignment:
    name = world.dice.choice(("Wedding", "Farewell", "Moving in"))
    chosen = [row["title"] for row in world.dice.sample(world.those("products"), 3)]
    return Assignment(
        f'Make a new private wish list called "{name}" and put these on it: {", ".join(chosen)}.',
        (
            Added("wishlists", name=name, visibility="Private"),
            *(Added("wishes", list=name, product=title, quantity=1) for title in chosen),
        ),
    )


@tasks.add("last-name", "short")
def last_name(world: World) -> Assignment:
    name = world.dice.choice(("Marsh", "Holm", "Vidal", "Okafor"))
    return Assignment(
        f"I have married: change my last name to {name} in my profile.", (world.changed("users", 1, last_name=name),)
    )


@tasks.add("default-address", "short")
def default_address(world: World) -> Assignment:
    old, new = world.row("addresses", is_default_for_shipping=1), world.row("addresses", is_default_for_shipping=0)
    return Assignment(
        f"Make my address in {new['line4']} the default one for shipping.",
        (
            world.changed("addresses", new["id"], is_default_for_shipping=1),
            world.changed("addresses", old["id"], is_default_for_shipping=0),
        ),
    )


@tasks.add("new-address", "medium")
def new_address(world: World) -> Assignment:
    number, street = world.dice.randrange(1, 99), world.dice.choice(("Quay Road", "Elm Walk", "Castle Street"))
    town, code = world.dice.choice((("Poole", "BH15 1HJ"), ("Ryde", "PO33 2NH"), ("Mallaig", "PH41 4PY")))
    values = {
        "first_name": "Alex", "last_name": "Reed", "line1": f"{number} {street}", "line4": town, "postcode": code,
    }  # fmt: skip
    return Assignment(
        f"Add an address to my address book: Alex Reed, {values['line1']}, {town}, {code}, United Kingdom.",
        (Added("addresses", **values),),
    )


@tasks.add("review", "medium")
def review(world: World) -> Assignment:
    """Nobody is signed in twice: what the shop has of mine is none, so any product will do."""
    product = world.row("products")
    title = world.dice.choice(("Good value", "Would buy again", "Not for me"))
    score, text = world.dice.randrange(2, 6), world.dice.choice(("It works well.", "It came in two days."))
    return Assignment(
        f'Write a review of the {product["title"]}: {score} stars, with the title "{title}" and the text "{text}"',
        (Added("reviews", product=product["title"], title=title, score=score, body=text),),
    )
