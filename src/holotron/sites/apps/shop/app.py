"""The shop as an app; its pages are in `catalogue.py`, `buying.py` and `account.py`."""

from __future__ import annotations

from pathlib import Path

from holotron.sites.apps.shop.data import CATEGORIES, CATEGORY_ICONS, SCHEMA, fill
from holotron.sites.apps.shop.words import WORDS
from holotron.sites.web import App, Link, Menu, Visit


def menu(visit: Visit) -> Menu:
    t, path = visit.t, visit.path
    chosen = visit.query.get("category", "")
    places = [
        Link(name, t(name), f"/products?category={name}", CATEGORY_ICONS[name], here=chosen == name)
        for name in CATEGORIES
    ]
    in_cart = visit.state.value("select coalesce(sum(quantity), 0) from cart")
    own = [
        Link("wishes", t("wishes"), "/wishes", "heart", here=path == "/wishes"),
        Link("account", t("account"), "/account", "user", here=path.startswith(("/account", "/orders", "/sign-in"))),
        Link("cart", t("cart"), "/cart", "cart", count=in_cart, here=path in ("/cart", "/checkout")),
    ]
    return Menu(places, own, search="/products")


app = App(
    "shop",
    folder=Path(__file__).parent,
    schema=SCHEMA,
    words=WORDS,
    brands=(
        ("Fern & Oak", "fernandoak.example"),
        ("Nordhaus", "nordhaus.example"),
        ("The Good Shelf", "goodshelf.example"),
        ("Maison Claire", "maisonclaire.example"),
        ("Tidewater Supply", "tidewater.example"),
        ("Casa Lima", "casalima.example"),
    ),
    menu=menu,
    fill=fill,
    # An order takes its goods out of stock and empties the cart; a review moves the product's rating.
    follows={"variants": frozenset({"stock"}), "products": frozenset({"rating"})},
    irrevocable=frozenset({"orders", "returns", "reviews", "requests"}),
)
