"""What is asked of a customer, in three lengths."""

from __future__ import annotations

from holotron.sites.apps.shop import plans
from holotron.sites.apps.shop.data import CATEGORIES
from holotron.sites.apps.shop.words import WORDS
from holotron.sites.checks import IMPOSSIBLE, Added, Answered, Changed, Removed
from holotron.sites.state import Row
from holotron.sites.tasks import Assignment, Brief, Templates

templates = Templates("shop")

IN_STOCK = "select v.*, p.name, p.price from variants v join products p on p.id = v.product where v.stock >= 5"
LOG_IN = " My log-in is {email} with the password {password}."


def english(key: str) -> str:
    """Goals are in English whatever the shop's language is."""
    return WORDS[key][0]


def customer(brief: Brief) -> Row:
    return brief.state.get("select * from users")


def start_page(brief: Brief) -> str:
    """Not always the home page."""
    category = brief.dice.choice(CATEGORIES)
    return brief.dice.choice(("/", "/", f"/products?category={category}"))


def fill_cart(brief: Brief, count: int) -> list[Row]:
    """Put different products into the cart before the episode starts."""
    lines: list[Row] = []
    taken: set[int] = set()
    for variant in brief.some(count * 3, IN_STOCK):
        if variant["product"] not in taken and len(lines) < count:
            taken.add(variant["product"])
            quantity = brief.dice.randrange(1, 4)
            line = brief.state.add("cart", variant=variant["id"], quantity=quantity)
            lines.append({**variant, "line": line, "quantity": quantity})
    return lines


def said(variant: Row) -> str:
    """How a goal names goods: options only where there is a choice."""
    return variant["name"] if variant["label"] == "One size" else f"{variant['name']} ({variant['label']})"


# -------------------------------------------------------------------------------------------------------------- short


@templates.add("wish", "short", plan=plans.wish)
def wish(brief: Brief) -> Assignment:
    product = brief.choose("select * from products")
    return Assignment(
        goal=brief.say(
            "Put the {name} on my wish list.",
            "Save the {name} to the wish list.",
            "Find the {name} and add it to my wish list.",
            "I like the {name}. Remember it for me on the wish list.",
            "Wish list: add {name}.",
            name=product["name"],
        ),
        wanted=(Added("wishes", product=product["id"]),),
        facts={"product": product},
        start=start_page(brief),
    )


@templates.add("unwish", "short", plan=plans.unwish)
def unwish(brief: Brief) -> Assignment:
    products = brief.some(brief.dice.randrange(3, 6), "select * from products")
    rows = [brief.state.add("wishes", product=product["id"]) for product in products]
    chosen = brief.dice.randrange(len(products))
    return Assignment(
        goal=brief.say(
            "Remove the {name} from my wish list.",
            "Take the {name} off my wish list and leave the rest.",
            "The {name} can go from my wish list.",
            name=products[chosen]["name"],
        ),
        wanted=(Removed("wishes", rows[chosen]),),
        facts={"product": products[chosen]},
        start=start_page(brief),
    )


@templates.add("cart-quantity", "short", plan=plans.cart)
def cart_quantity(brief: Brief) -> Assignment:
    lines = fill_cart(brief, brief.dice.randrange(2, 4))
    line = brief.dice.choice(lines)
    number = brief.dice.choice([n for n in range(1, 6) if n != line["quantity"]])
    return Assignment(
        goal=brief.say(
            "Change the quantity of the {name} in my cart to {number}.",
            "I want {number} of the {name} that is in my cart; change the quantity.",
            "My cart should hold {number} of the {name}.",
            "Set the {name} in the cart to {number} pieces.",
            name=said(line),
            number=number,
        ),
        wanted=(Changed("cart", line["line"], quantity=number),),
        facts={"goods": {x["id"]: number if x is line else x["quantity"] for x in lines}},
        start=start_page(brief),
    )


@templates.add("cart-remove", "short", plan=plans.cart)
def cart_remove(brief: Brief) -> Assignment:
    lines = fill_cart(brief, brief.dice.randrange(2, 5))
    line = brief.dice.choice(lines)
    return Assignment(
        goal=brief.say(
            "Remove the {name} from my cart.",
            "I no longer want the {name}. Take it out of the cart and keep everything else.",
            "Delete {name} from the cart.",
            name=said(line),
        ),
        wanted=(Removed("cart", line["line"]),),
        facts={"goods": {x["id"]: x["quantity"] for x in lines if x is not line}},
        start=start_page(brief),
    )


@templates.add("cheapest", "short", plan=plans.cheapest, about=("question", "sorting", "pagination"))
def cheapest(brief: Brief) -> Assignment:
    category = brief.dice.choice(CATEGORIES)
    found = brief.state.all("select * from products where category = ? order by price, name", category)
    if found[0]["price"] == found[1]["price"]:
        brief.state.run("update products set price = price - 100 where id = ?", found[0]["id"])
    return Assignment(
        goal=brief.say(
            "What is the cheapest product in the category {category}? Answer with its name.",
            "Which product in {category} has the lowest price? Answer with its name.",
            "Name the product with the lowest price among everything in {category}.",
            category=english(category),
        ),
        wanted=(Answered(found[0]["name"], others=tuple(row["name"] for row in found[1:])),),
        facts={"category": category, "product": found[0]},
    )


@templates.add("material", "short", plan=plans.material, about=("question",))
def material(brief: Brief) -> Assignment:
    product = brief.choose("select * from products")
    others = brief.state.all("select distinct material from products where material != ?", product["material"])
    return Assignment(
        goal=brief.say(
            "Which material is the {name} made of?",
            "What is the {name} made of? Answer with the material.",
            name=product["name"],
        ),
        wanted=(Answered(product["material"], others=tuple(row["material"] for row in others)),),
        facts={"product": product},
        start=start_page(brief),
    )


@templates.add("notifications", "short", plan=plans.notifications, about=("form",))
def notifications(brief: Brief) -> Assignment:
    user = customer(brief)
    name = brief.dice.choice(("newsletter", "sms"))
    on = brief.dice.randrange(2)
    brief.state.run(f"update users set {name} = ? where id = ?", 1 - on, user["id"])
    other = "sms" if name == "newsletter" else "newsletter"
    what = {"newsletter": "the newsletter by email", "sms": "order updates by text message"}[name]
    return Assignment(
        goal=brief.say(
            "Turn {state} {what} in my account.",
            "In my account settings, switch {what} {state}.",
            state="on" if on else "off",
            what=what,
        ),
        wanted=(Changed("users", user["id"], **{name: on}),),
        facts={"wanted": {name: on, other: user[other]}, "login": user},
        signed_in=user["id"],
    )


@templates.add("statement", "short", plan=plans.statement, about=("question", "slow page"))
def statement(brief: Brief) -> Assignment:
    user = customer(brief)
    years = brief.state.all(
        "select substr(day, 1, 4) year, sum(total) spent from orders where status != 'cancelled' group by year"
    )
    chosen = brief.dice.choice(years)
    amounts = {row["year"]: f"{row['spent'] / 100:.2f}" for row in years}
    brief.trouble(slow="/account/statement")
    return Assignment(
        goal=brief.say(
            "How much did I spend in {year} according to the yearly statement in my account?",
            "Look at the yearly statement in my account: what is the amount spent for {year}?",
            year=chosen["year"],
        ),
        wanted=(
            Answered(
                amounts[chosen["year"]], "number", tuple(v for year, v in amounts.items() if year != chosen["year"])
            ),
        ),
        facts={"year": chosen["year"], "answer": amounts[chosen["year"]], "login": user},
        signed_in=user["id"],
    )


@templates.add("popup", "short", plan=plans.cart, about=("pop-up", "form"))
def popup(brief: Brief) -> Assignment:
    """The product's page is open, and a window lies over it."""
    variant = brief.choose(f"{IN_STOCK} and v.label != 'One size'")
    quantity = brief.dice.randrange(2, 5)
    brief.trouble(newsletter=1)
    return Assignment(
        goal=brief.say(
            "Add {quantity} of this product in the option {label} to my cart.",
            "I need {quantity} of what is shown here, option {label}: into the cart, please.",
            "Put {quantity} × {label} of the product on this page into the cart.",
            quantity=quantity,
            label=variant["label"],
        ),
        wanted=(Added("cart", variant=variant["id"], quantity=quantity),),
        facts={"goods": {variant["id"]: quantity}},
        start=f"/product/{variant['product']}",
    )


@templates.add("maybe", "short", plan=plans.maybe, about=("impossible",))
def maybe(brief: Brief) -> Assignment:
    """Sold out for half of the seeds."""
    variant = brief.choose(f"{IN_STOCK} and v.label != 'One size'")
    sold_out = brief.dice.random() < 0.5
    if sold_out:
        brief.state.run("update variants set stock = 0 where id = ?", variant["id"])
        variant = {**variant, "stock": 0}
    return Assignment(
        goal=brief.say(
            'Put one {name} in the option {label} into my cart. If that cannot be done, answer "impossible".',
            'Add the {name}, option {label}, to the cart. Answer "impossible" if it cannot be bought.',
            name=variant["name"],
            label=variant["label"],
        ),
        wanted=(IMPOSSIBLE,) if sold_out else (Added("cart", variant=variant["id"], quantity=1),),
        facts={
            "variant": variant,
            "goods": {variant["id"]: 1},
            "product": brief.state.get("select * from products where id = ?", variant["product"]),
        },
        start=start_page(brief),
    )
