"""What is in the shop before anybody came. Runs beside django-oscar, not beside us; the same every time."""

import os
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

KINDS = {
    "Kitchen": ("Kettle", "Teapot", "Bread knife", "Saucepan", "Colander", "Mixing bowl"),
    "Bath": ("Towel", "Soap dish", "Bath mat", "Mirror", "Laundry basket", "Shelf"),
    "Garden": ("Watering can", "Trowel", "Lantern", "Bird bath", "Rain gauge", "Rake"),
    "Desk": ("Notebook", "Desk lamp", "Pen tray", "Letter rack", "Wall clock", "Globe"),
}
MAKERS = ("Alder", "Birch", "Cedar")  # of each thing three, in three colours
COLOURS = {"Alder": (176, 196, 160), "Birch": (222, 208, 176), "Cedar": (190, 130, 104)}
PEOPLE = (
    ("bruna", "Bruna", "Costa"), ("chiara", "Chiara", "Moretti"), ("david", "David", "Olsen"),
    ("emil", "Emil", "Novak"), ("farah", "Farah", "Aziz"), ("greta", "Greta", "Lind"),
)  # fmt: skip
STREETS = ("Mill Lane", "Station Road", "Harbour Street", "Chapel Hill", "Orchard Close")
TOWNS = (("Whitby", "YO21 1AA"), ("Falmouth", "TR11 3QY"), ("Oban", "PA34 4AW"), ("Conwy", "LL32 8AY"))
REVIEWS = (
    ("Does what it should", 4, "I have had it for a month and would buy it again."),
    ("Too small", 2, "It is a good deal smaller than it looks in the picture."),
    ("Lovely", 5, "A present for my sister, who uses it every day."),
    ("Broke at once", 1, "The handle came off on the second day."),
)
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def fill(me: str, media: str) -> None:
    from django.contrib.auth.models import User
    from django.contrib.flatpages.models import FlatPage
    from django.contrib.sites.models import Site
    from oscar.core.loading import get_model

    dice = random.Random("oscar")
    Site.objects.update_or_create(id=1, defaults={"domain": "quayside.example", "name": "Quayside"})
    alex = User.objects.create(
        username=me, email="alex@quayside.example", first_name="Alex", last_name="Reed", is_staff=True,
        is_superuser=True, date_joined=START,
    )  # fmt: skip
    users = [
        User.objects.create(username=name, email=f"{name}@mail.example", first_name=first, last_name=last,
                            date_joined=START)
        for name, first, last in PEOPLE
    ]  # fmt: skip
    country = get_model("address", "Country").objects.create(
        iso_3166_1_a2="GB", iso_3166_1_a3="GBR", iso_3166_1_numeric="826", printable_name="United Kingdom",
        name="United Kingdom", is_shipping_country=True,
    )  # fmt: skip
    addresses = get_model("address", "UserAddress").objects
    for number, (town, code) in enumerate(TOWNS[:2]):
        addresses.create(
            user=alex, first_name="Alex", last_name="Reed", line1=f"{4 + 7 * number} {STREETS[number]}", line4=town,
            postcode=code, country=country, is_default_for_shipping=number == 0,
        )  # fmt: skip
    products = _products(dice, media)
    wishes = get_model("wishlists", "WishList").objects.create(owner=alex, name="Birthday")
    type(wishes).objects.filter(id=wishes.id).update(key="bday26")  # else it is drawn anew on every machine
    get_model("wishlists", "Line").objects.create(wishlist=wishes, product=products[3], title=products[3].title)
    _offers(products)
    for number, user in enumerate(dice.choices(users, k=14)):
        _order(dice, number, user, products, country)
    review = get_model("reviews", "ProductReview").objects
    for number, product in enumerate(dice.sample(products, 8)):
        title, score, body = REVIEWS[number % 4]
        made = review.create(product=product, user=users[number % 6], title=title, score=score, body=body,
                             status=0 if number % 2 else 1)  # fmt: skip
        review.filter(id=made.id).update(date_created=START + timedelta(days=number))
    page = FlatPage.objects.create(
        url="/returns/", title="Returns", content="<p>Goods can be returned within 30 days. Write to Hall 7.</p>"
    )
    page.sites.add(1)
    get_model("partner", "Partner").objects.create(name="Northern Depot", code="north")


def _products(dice: random.Random, media: str) -> list[Any]:
    from oscar.apps.catalogue.categories import create_from_breadcrumbs
    from oscar.core.loading import get_model

    product_class = get_model("catalogue", "ProductClass").objects.create(name="Goods", requires_shipping=True)
    partner = get_model("partner", "Partner").objects.create(name="Main Depot", code="main")
    model = get_model("catalogue", "Product").objects
    found: list[Any] = []
    for category_name, things in KINDS.items():
        category = create_from_breadcrumbs(category_name)
        for thing in things:
            for maker in MAKERS:
                number = len(found) + 1
                product = model.create(
                    structure="standalone", title=f"{maker} {thing}", upc=f"{1000 + number}",
                    product_class=product_class,
                    description=f"<p>{thing} by {maker}. Weighs {dice.randrange(2, 30) * 100} grams.</p>",
                )  # fmt: skip
                model.filter(id=product.id).update(date_created=START + timedelta(hours=number))
                get_model("catalogue", "ProductCategory").objects.create(product=product, category=category)
                get_model("partner", "StockRecord").objects.create(
                    product=product, partner=partner, partner_sku=f"Q-{100 + number}", price_currency="GBP",
                    price=Decimal(dice.randrange(300, 9000)) / 100, low_stock_threshold=5,
                    num_in_stock=0 if number % 12 == 0 else dice.randrange(6, 60),
                )  # fmt: skip
                _picture(os.path.join(media, f"{product.id}.png"), thing, COLOURS[maker])
                get_model("catalogue", "ProductImage").objects.create(product=product, original=f"{product.id}.png")
                found.append(product)
    return found


def _picture(path: str, thing: str, colour: tuple[int, int, int]) -> None:
    """Something to look at: a shape that follows from the thing, in the maker's colour."""
    from PIL import Image, ImageDraw

    shape = random.Random(thing)
    image = Image.new("RGB", (200, 200), "white")
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((20, 60, 180, 180), shape.randrange(4, 60), colour)
    for _ in range(4):
        x, y, size = shape.randrange(30, 150), shape.randrange(20, 150), shape.randrange(10, 50)
        pen.ellipse((x, y, x + size, y + size), tuple(part - 50 for part in colour))
    image.save(path)


def _offers(products: list[Any]) -> None:
    from oscar.core.loading import get_model

    everything = get_model("offer", "Range").objects.create(name="Everything", includes_all_products=True)
    get_model("offer", "Range").objects.create(name="Spring table").add_product(products[0])
    voucher = get_model("voucher", "Voucher").objects.create(
        name="Welcome",
        code="WELCOME10",
        usage="Multi-use",
        start_datetime=START,
        end_datetime=datetime(2036, 1, 1, tzinfo=UTC),
    )
    offer = get_model("offer", "ConditionalOffer").objects.create(
        name="Offer for voucher 'Welcome'", offer_type="Voucher",
        benefit=get_model("offer", "Benefit").objects.create(range=everything, type="Percentage", value=10),
        condition=get_model("offer", "Condition").objects.create(range=everything, type="Count", value=1),
    )  # fmt: skip
    voucher.offers.add(offer)


def _order(dice: random.Random, number: int, user: Any, products: list[Any], country: Any) -> None:
    from oscar.core.loading import get_model

    town, code = dice.choice(TOWNS)
    address = get_model("order", "ShippingAddress").objects.create(
        first_name=user.first_name, last_name=user.last_name, line1=f"{dice.randrange(1, 90)} {dice.choice(STREETS)}",
        line4=town, postcode=code, country=country,
    )  # fmt: skip
    chosen = [(product, dice.randrange(1, 4)) for product in dice.sample(products, dice.randrange(1, 4))]
    total = sum(product.stockrecords.get().price * quantity for product, quantity in chosen)
    order = get_model("order", "Order").objects.create(
        number=f"{100041 + number}", user=user, currency="GBP", total_incl_tax=total, total_excl_tax=total,
        shipping_incl_tax=0, shipping_excl_tax=0, shipping_address=address, shipping_method="Free shipping",
        status=("Pending", "Being processed", "Complete")[number % 3], date_placed=START + timedelta(days=number),
    )  # fmt: skip
    for product, quantity in chosen:
        record = product.stockrecords.get()
        each = record.price
        get_model("order", "Line").objects.create(
            order=order, partner=record.partner, partner_name=record.partner.name, partner_sku=record.partner_sku,
            stockrecord=record, product=product, title=product.title, upc=product.upc, quantity=quantity,
            status="Pending", line_price_incl_tax=each * quantity, line_price_excl_tax=each * quantity,
            line_price_before_discounts_incl_tax=each * quantity, line_price_before_discounts_excl_tax=each * quantity,
            unit_price_incl_tax=each, unit_price_excl_tax=each, num_allocated=0,
        )  # fmt: skip
