"""What is asked of somebody who works for the shop, in its dashboard. For measuring, never for training."""

from __future__ import annotations

from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Wanted
from holotron.sites.transfer.oscar_tasks import tasks
from holotron.sites.transfer.tasks import Assignment, World

DASHBOARD = "/dashboard/"
NOTES = ("Customer called, no hurry.", "Leave it with the neighbour.", "Wrap it as a present.")


@tasks.add("who-ordered", "short")
def who_ordered(world: World) -> Assignment:
    order = world.row("orders")
    others = {row["customer"] for row in world.those("orders")} - {order["customer"]}
    return Assignment(
        f"Who placed order {order['number']}? Answer with the name.",
        (Answered(order["customer"], others=tuple(sorted(others))),),
        DASHBOARD,
    )


@tasks.add("count-pending", "short")
def count_pending(world: World) -> Assignment:
    status = world.dice.choice(("Pending", "Being processed", "Complete"))
    count = len(world.those("orders", status=status))
    return Assignment(
        f'How many orders have the status "{status}"? Answer with a number.',
        (Answered(str(count), "number", tuple(str(n) for n in range(20) if n != count)),),
        DASHBOARD,
    )


@tasks.add("order-status", "short")
def order_status(world: World) -> Assignment:
    order = world.row("orders", status=world.dice.choice(("Pending", "Being processed")))
    new = {"Pending": "Being processed", "Being processed": "Complete"}[order["status"]]
    return Assignment(
        f'Set the status of order {order["number"]} to "{new}".',
        (world.changed("orders", order["id"], status=new),),
        DASHBOARD,
    )


@tasks.add("order-cancel-maybe", "short")
def order_cancel_maybe(world: World) -> Assignment:
    """An order that is complete cannot be cancelled: half of the seeds."""
    status = world.dice.choice(("Complete", "Pending"))
    order = world.row("orders", status=status)
    wanted: Wanted = IMPOSSIBLE
    if status == "Pending":
        wanted = world.changed("orders", order["id"], status="Cancelled")
    return Assignment(
        f"Cancel order {order['number']}. If its status does not allow that, answer that it is impossible.",
        (wanted,),
        DASHBOARD,
    )


@tasks.add("order-note", "medium")
def order_note(world: World) -> Assignment:
    order, text = world.row("orders"), world.dice.choice(NOTES)
    return Assignment(
        f'Leave a note on order {order["number"]}: "{text}"',
        (Added("order_notes", order_id=order["id"], message=text),),
        DASHBOARD,
    )


@tasks.add("orders-dispatch", "long")
def orders_dispatch(world: World) -> Assignment:
    """Two orders, each with a new status and a note."""
    chosen = world.dice.sample(world.those("orders", status="Pending"), 2)
    texts = world.dice.sample(NOTES, 2)
    parts = "; ".join(f'order {row["number"]}: "{text}"' for row, text in zip(chosen, texts, strict=True))
    wanted: list[Wanted] = []
    for order, text in zip(chosen, texts, strict=True):
        wanted.append(world.changed("orders", order["id"], status="Being processed"))
        wanted.append(Added("order_notes", order_id=order["id"], message=text))
    return Assignment(
        f'Set these orders to "Being processed", and leave a note on each of them. {parts[0].upper()}{parts[1:]}',
        tuple(wanted),
        DASHBOARD,
    )


@tasks.add("stock", "medium")
def stock(world: World) -> Assignment:
    goods = world.row("stock")
    count = world.dice.randrange(61, 400)
    return Assignment(
        f"A delivery has come: set the number in stock of the {goods['product']} to {count}.",
        (world.changed("stock", goods["id"], num_in_stock=count),),
        DASHBOARD,
    )


@tasks.add("set-price", "medium")
def set_price(world: World) -> Assignment:
    goods = world.row("stock")
    new = f"{float(goods['price']) + world.dice.randrange(1, 12):.2f}"
    return Assignment(
        f"Change the price of the {goods['product']} to {new}.",
        (world.changed("stock", goods["id"], price=new),),
        DASHBOARD,
    )


@tasks.add("restock", "long")
def restock(world: World) -> Assignment:
    chosen = world.dice.sample(world.those("stock", num_in_stock=0), 2)
    counts = [world.dice.randrange(20, 90) for _ in chosen]
    listed = ", ".join(f"{goods['product']} to {count}" for goods, count in zip(chosen, counts, strict=True))
    return Assignment(
        f"Set the numbers in stock: {listed}.",
        tuple(
            world.changed("stock", goods["id"], num_in_stock=count) for goods, count in zip(chosen, counts, strict=True)
        ),
        DASHBOARD,
    )


@tasks.add("hide-product", "medium")
def hide_product(world: World) -> Assignment:
    product = world.row("products")
    return Assignment(
        f"The {product['title']} must not be seen in the shop for now. Make it not public.",
        (world.changed("products", product["id"], is_public=0),),
        DASHBOARD,
    )


@tasks.add("approve-review", "short")
def approve_review(world: World) -> Assignment:
    review = world.row("reviews", status=0)
    return Assignment(
        f'Approve the review "{review["title"]}" of the {review["product"]}.',
        (world.changed("reviews", review["id"], status=1),),
        DASHBOARD,
    )


@tasks.add("new-category", "short")
def new_category(world: World) -> Assignment:
    name = world.dice.choice(("Nursery", "Cellar", "Workshop", "Travel"))
    return Assignment(
        f'Add a category called "{name}" to the catalogue, at the top level.',
        (Added("categories", name=name, is_public=1),),
        DASHBOARD,
    )


@tasks.add("new-partner", "short")
def new_partner(world: World) -> Assignment:
    name = world.dice.choice(("Coast Supplies", "Harbour Traders", "Moorland Goods"))
    return Assignment(f'Add a partner called "{name}".', (Added("partners", name=name),), DASHBOARD)


@tasks.add("new-voucher", "medium")
def new_voucher(world: World) -> Assignment:
    name = world.dice.choice(("Summer", "Regatta", "Neighbours"))
    code, day = f"{name.upper()}{world.dice.randrange(10, 99)}", f"2027-0{world.dice.randrange(1, 10)}-15"
    return Assignment(
        f'Create a voucher called "{name}" with the code {code} that ends on {day}. Customers may use it once each. '
        "It has the same offer as the voucher that is there already.",
        (Added("vouchers", name=name, code=code, ends=day, usage="Once per customer"),),
        DASHBOARD,
    )


@tasks.add("order-recall", "medium")
def order_recall(world: World) -> Assignment:
    """What was ordered stands in the dashboard; the wish list is in the shop."""
    held = {row["product"] for row in world.those("wishes")}
    lines = {order["id"]: world.those("order_lines", order_id=order["id"]) for order in world.those("orders")}
    single = {id: found[0] for id, found in lines.items() if len(found) == 1 and found[0]["product"] not in held}
    order = world.dice.choice([order for order in world.those("orders") if order["id"] in single])
    line = single[order["id"]]
    return Assignment(
        f'Look up what was ordered with order {order["number"]}, then put the same product on my wish list "Birthday".',
        (Added("wishes", list="Birthday", product=line["product"], quantity=1),),
        DASHBOARD,
    )
