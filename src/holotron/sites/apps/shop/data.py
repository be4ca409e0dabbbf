"""What a shop holds: products with variants and reviews, a customer with addresses and past orders, coupons."""

from __future__ import annotations

import datetime
import random

from holotron.sites.people import address, password, people
from holotron.sites.tasks import Brief

SCHEMA = """
create table products (id integer primary key, name text, brand text, category text, price int, rating real,
  material text, about text, added text, hue int);
create table variants (id integer primary key, product int, label text, stock int);
create table reviews (id integer primary key, product int, author text, stars int, title text, body text, day text);
create table users (id integer primary key, name text, email text, password text, phone text, newsletter int,
  sms int, language text);
create table addresses (id integer primary key, user int, name text, street text, postcode text, city text, main int);
create table cart (id integer primary key, variant int, quantity int);
create table checkout (id integer primary key, coupon text);
create table coupons (id integer primary key, code text, percent int, minimum int, ends text);
create table wishes (id integer primary key, product int);
create table orders (id integer primary key, number text, user int, day text, status text, total int, coupon text,
  name text, street text, postcode text, city text, phone text, shipping text, note text, tracking text);
create table order_items (id integer primary key, orders int, variant int, quantity int, price int);
create table returns (id integer primary key, item int, reason text, quantity int);
create table requests (id integer primary key, topic text, reference text, message text);
"""

CATEGORIES = ("kitchen", "lighting", "garden", "outdoor", "desk", "bedroom")
CATEGORY_ICONS = dict(zip(CATEGORIES, ("pot", "lamp", "leaf", "tent", "pen", "bed"), strict=True))
STATUSES = ("processing", "shipped", "delivered", "cancelled")
REASONS = ("damaged", "wrong_item", "too_small", "changed_mind")
SHIPPING = {"standard": 490, "express": 1290, "pickup": 0}  # cents
FREE_SHIPPING_FROM = 15_000

# fmt: off
_BRANDS = "Halden Norrby Castell Ferro Oakline Brisa Kumo Tarn Velo Lumen Arlo Sundt Marlow Pika Rowan"
_SERIES = "Alba Bryn Cora Dune Elm Faro Gale Hale Iris Juno Kite Luma Mira Nova Orin Pine Quill Rune Sora Tide"
_COUPONS = "SPRING HELLO FRESH COSY WINTER THANKS SUNNY LUCKY HOME BRIGHT"
_NOUNS = {
    "kitchen": (("Kettle", 24, 89), ("Frying Pan", 19, 99), ("Chopping Board", 12, 59), ("Teapot", 18, 75),
                ("Knife Set", 35, 149), ("Salad Bowl", 14, 55), ("Pepper Mill", 12, 45), ("Storage Jar", 8, 29)),
    "lighting": (("Desk Lamp", 29, 119), ("Floor Lamp", 59, 229), ("Pendant Light", 45, 189), ("Night Light", 9, 35),
                 ("Wall Lamp", 29, 99), ("String Lights", 12, 45)),
    "garden": (("Plant Pot", 8, 49), ("Watering Can", 15, 45), ("Garden Trowel", 9, 29), ("Herb Planter", 18, 69),
               ("Bird Feeder", 14, 49), ("Garden Hose", 25, 79), ("Pruning Shears", 16, 59)),
    "outdoor": (("Two-Person Tent", 89, 349), ("Sleeping Bag", 49, 199), ("Camping Stove", 29, 119),
                ("Trekking Poles", 25, 95), ("Water Bottle", 12, 39), ("Head Torch", 15, 65), ("Daypack", 35, 129)),
    "desk": (("Notebook", 6, 25), ("Fountain Pen", 19, 139), ("Desk Organiser", 15, 59), ("Paper Tray", 12, 39),
             ("Mouse Pad", 9, 35), ("Bookend Pair", 14, 49), ("Wall Calendar", 9, 29)),
    "bedroom": (("Duvet Cover", 35, 149), ("Pillow", 19, 89), ("Throw Blanket", 29, 119), ("Bedside Table", 59, 199),
                ("Alarm Clock", 15, 69), ("Laundry Basket", 19, 69)),
}
_MATERIALS = {
    "kitchen": ("oak", "bamboo", "steel", "stoneware", "glass", "enamel", "walnut"),
    "lighting": ("brass", "aluminium", "glass", "oak", "steel", "linen"),
    "garden": ("terracotta", "zinc", "recycled plastic", "steel", "cedar"),
    "outdoor": ("nylon", "aluminium", "recycled polyester", "steel", "ripstop"),
    "desk": ("cork", "leather", "recycled paper", "brass", "beech", "acrylic"),
    "bedroom": ("cotton", "linen", "wool", "bamboo", "jersey", "felt"),
}
_COLOURS = ("Black", "White", "Sage", "Navy", "Terracotta", "Sand", "Slate", "Mustard")
_SIZES = ("Small", "Medium", "Large")
_PRAISE = ("Does exactly what it should", "Better than expected", "Lovely colour", "Would buy again", "Solid quality")
_BLAME = ("Not for me", "Smaller than it looks", "Arrived late", "The finish scratches easily", "Average at best")
_BODIES = ("We have used it every day for a month and it still looks new.", "It feels well made and is easy to clean.",
           "The size is right for our flat, and assembly took five minutes.", "I bought a second one as a present.",
           "For the price I had hoped for a little more.", "Packaging was fine, delivery took a week.")
# fmt: on


def fill(brief: Brief) -> None:
    dice, state, today = brief.dice, brief.state, brief.variation.today
    _products(brief)
    person = people(dice, brief.t.language, 1)[0]
    phone = f"{dice.randrange(10**8, 10**9)}"
    user = state.add(
        "users", name=person.name, email=person.email, password=password(dice), phone=phone, newsletter=1, sms=1,
        language=brief.t.language,
    )  # fmt: skip
    home = [address(dice, brief.t.language, person.name) for _ in range(2)]
    for index, place in enumerate(home):
        state.add("addresses", user=user, name=place.name, street=place.street, postcode=place.postcode,
                  city=place.city, main=int(index == 0))  # fmt: skip
    state.add("checkout", coupon="")
    for code, percent, minimum, days in _coupons(dice):
        ends = today + datetime.timedelta(days=days)
        state.add("coupons", code=code, percent=percent, minimum=minimum, ends=ends.isoformat())
    _orders(brief, user)


def _coupons(dice: random.Random) -> list[tuple[str, int, int, int]]:
    """Code, percent, least order in cents, days until it ends. Some are over, some need a large order."""
    words = dice.sample(_COUPONS.split(), 5)
    percents = dice.sample((5, 10, 12, 15, 20, 25, 30), 5)
    kinds = [(0, 30), (0, 12), (0, -8), (90_000, 20), (0, -40)]
    return [(f"{word}{p}", p, minimum, days) for word, p, (minimum, days) in zip(words, percents, kinds, strict=True)]


def _products(brief: Brief) -> None:
    dice, state = brief.dice, brief.state
    names: set[str] = set()
    for category in CATEGORIES:
        for _ in range(dice.randrange(14, 27)):
            noun, low, high = dice.choice(_NOUNS[category])
            brand, series = dice.choice(_BRANDS.split()), dice.choice(_SERIES.split())
            name = f"{brand} {series} {noun}"
            if name in names:
                continue
            names.add(name)
            material = dice.choice(_MATERIALS[category])
            price = dice.randrange(low, high) * 100 + dice.choice((0, 50, 90, 95, 99))
            added = brief.variation.today - datetime.timedelta(days=dice.randrange(1, 700))
            product = state.add(
                "products", name=name, brand=brand, category=category, price=price, rating=0.0, material=material,
                about=f"A {noun.lower()} in {material} by {brand}, part of the {series} series.",
                added=added.isoformat(), hue=dice.randrange(360),
            )  # fmt: skip
            _variants(dice, brief, product)
            _reviews(dice, brief, product)
    state.run(
        "update products set rating = "
        "coalesce((select round(avg(stars), 1) from reviews where product = products.id), 0)"
    )


def _variants(dice: random.Random, brief: Brief, product: int) -> None:
    kind = dice.choice((_COLOURS, _COLOURS, _SIZES, ("One size",)))
    labels = kind if len(kind) <= 3 else dice.sample(kind, dice.randrange(2, 5))
    for label in labels:
        stock = 0 if len(labels) > 1 and dice.random() < 0.15 else dice.randrange(3, 60)
        brief.state.add("variants", product=product, label=label, stock=stock)


def _reviews(dice: random.Random, brief: Brief, product: int) -> None:
    level = dice.choice((2, 3, 4, 4, 5))
    count = dice.choice((0, 1, 2, 3, 4))
    for author in people(dice, brief.t.language, count):
        stars = min(5, max(1, level + dice.choice((-1, 0, 0, 1))))
        day = brief.variation.today - datetime.timedelta(days=dice.randrange(2, 300))
        brief.state.add(
            "reviews", product=product, author=author.name, stars=stars,
            title=dice.choice(_PRAISE if stars > 3 else _BLAME), body=dice.choice(_BODIES), day=day.isoformat(),
        )  # fmt: skip


def _orders(brief: Brief, user: int) -> None:
    dice, state = brief.dice, brief.state
    variants = state.all("select v.*, p.price from variants v join products p on p.id = v.product where v.stock > 0")
    home = state.all("select * from addresses where user = ?", user)
    customer = state.get("select * from users where id = ?", user)
    count = dice.randrange(11, 19)
    days = sorted(dice.sample(range(1, 400), count), reverse=True)
    number = dice.randrange(20_000, 60_000)
    for index, age in enumerate(days):
        number += dice.randrange(3, 60)
        place = dice.choice(home)
        recent = age < 14 or index == count - 1
        status = dice.choice(("processing", "shipped")) if recent else dice.choice(("delivered",) * 5 + ("cancelled",))
        items = [(v, dice.choice((1, 1, 1, 2, 3))) for v in dice.sample(variants, dice.randrange(1, 4))]
        order = state.add(
            "orders", number=f"{number}", user=user,
            day=(brief.variation.today - datetime.timedelta(days=age)).isoformat(), status=status,
            total=sum(v["price"] * q for v, q in items), coupon="", name=place["name"], street=place["street"],
            postcode=place["postcode"], city=place["city"], phone=customer["phone"],
            shipping=dice.choice(("standard", "express")), note="",
            tracking=f"{dice.choice('ABCDEFGHJK')}{dice.choice('LMNPQRSTUV')}{dice.randrange(10**6, 10**7)}",
        )  # fmt: skip
        for variant, quantity in items:
            state.add("order_items", orders=order, variant=variant["id"], quantity=quantity, price=variant["price"])
