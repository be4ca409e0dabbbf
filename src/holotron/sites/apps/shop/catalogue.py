"""Looking around: start page, lists with filters and sorting, product pages, reviews, wish list."""

from __future__ import annotations

from holotron.sites.apps.shop.app import app
from holotron.sites.apps.shop.data import CATEGORIES
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import Visit

SORTS = {
    "name": "name",
    "cheap": "price, name",
    "dear": "price desc, name",
    "rating": "rating desc, name",
    "new": "added desc, name",
}
SHORTEST_REVIEW = 20  # characters


@app.get("/")
def home(visit: Visit) -> HttpResponse:
    newest = visit.state.all("select * from products order by added desc, id limit 8")
    return visit.page("home.html", products=newest)


@app.get("/products")
def products(visit: Visit) -> HttpResponse:
    category, q = visit.text("category"), visit.text("q")
    sort = visit.text("sort") if visit.text("sort") in SORTS else "name"
    conditions, values = ["1"], []
    if category in CATEGORIES:
        conditions.append("category = ?")
        values.append(category)
    for word in q.lower().split():
        conditions.append("lower(name || ' ' || material) like ?")
        values.append(f"%{word}%")
    within = f"select * from products where {' and '.join(conditions)}"
    brands = [row["brand"] for row in visit.state.all(f"select distinct brand from ({within}) order by brand", *values)]
    narrowed: list[str] = ["1"]
    more: list[str | int] = []
    if visit.text("brand") in brands:
        narrowed.append("brand = ?")
        more.append(visit.text("brand"))
    if visit.number("max", 0) > 0:
        narrowed.append("price <= ?")
        more.append(visit.number("max", 0) * 100)
    if visit.number("stars", 0) > 0:
        narrowed.append("cast(rating + 0.5 as int) >= ?")  # as many as are shown
        more.append(visit.number("stars", 0))
    found = visit.state.all(
        f"select * from ({within}) where {' and '.join(narrowed)} order by {SORTS[sort]}", *values, *more
    )
    title = visit.t("results_for", q=q) if q else visit.t(category if category in CATEGORIES else "new_in")
    return visit.page("products.html", split=visit.split(found), title=title, brands=brands, sort=sort, sorts=SORTS)


@app.get("/product/<id>")
def product(visit: Visit, id: int) -> HttpResponse:
    return _product_page(visit, _product(visit, id))


def _product(visit: Visit, id: int) -> Row:
    return visit.state.get("select * from products where id = ?", id)


def _product_page(visit: Visit, product: Row) -> HttpResponse:
    return visit.page(
        "product.html",
        product=product,
        variants=visit.state.all("select * from variants where product = ? order by id", product["id"]),
        reviews=visit.state.all("select * from reviews where product = ? order by day desc, id", product["id"]),
        wished=visit.state.one("select * from wishes where product = ?", product["id"]),
    )


@app.post("/product/<id>/cart")
def add_to_cart(visit: Visit, id: int) -> HttpResponse:
    product = _product(visit, id)
    chosen = visit.state.one("select * from variants where id = ? and product = ?", visit.number("variant", 0), id)
    quantity = visit.number("quantity", 1)
    if chosen is None:
        visit.errors["variant"] = visit.t("choose_variant")
    elif not 1 <= quantity <= chosen["stock"]:
        left = chosen["stock"]
        visit.errors["quantity"] = visit.t("only_left", count=left) if left else visit.t("sold_out")
    if visit.errors or chosen is None:
        return _product_page(visit, product)
    already = visit.state.one("select * from cart where variant = ?", chosen["id"])
    if already:
        visit.state.run("update cart set quantity = quantity + ? where id = ?", quantity, already["id"])
    else:
        visit.state.add("cart", variant=chosen["id"], quantity=quantity)
    visit.flash(visit.t("added"))
    return visit.redirect("/cart")


@app.post("/product/<id>/wish")
def wish(visit: Visit, id: int) -> HttpResponse:
    _product(visit, id)
    if visit.state.one("select * from wishes where product = ?", id):
        visit.state.run("delete from wishes where product = ?", id)
    else:
        visit.state.add("wishes", product=id)
    return visit.redirect(visit.text("back") if visit.text("back") == "/wishes" else f"/product/{id}")


@app.get("/wishes")
def wishes(visit: Visit) -> HttpResponse:
    found = visit.state.all("select p.* from wishes w join products p on p.id = w.product order by w.id")
    return visit.page("wishes.html", products=found)


@app.get("/product/<id>/review")
def review(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return visit.page("review.html", product=_product(visit, id))


@app.post("/product/<id>/review")
def send_review(visit: Visit, id: int) -> HttpResponse:
    user, product = visit.need_user(), _product(visit, id)
    visit.require("title", "body")
    if not 1 <= visit.number("stars", 0) <= 5:
        visit.errors["stars"] = visit.t("required")
    if "body" not in visit.errors and len(visit.text("body")) < SHORTEST_REVIEW:
        visit.errors["body"] = visit.t("too_short", count=SHORTEST_REVIEW)
    if visit.errors:
        return visit.page("review.html", product=product)
    visit.state.add(
        "reviews", product=id, author=user["name"], stars=visit.number("stars"), title=visit.text("title"),
        body=visit.text("body"), day=visit.episode.variation.today.isoformat(),
    )  # fmt: skip
    visit.state.run(
        "update products set rating = (select round(avg(stars), 1) from reviews where product = ?) where id = ?", id, id
    )
    visit.flash(visit.t("thanks"))
    return visit.redirect(f"/product/{id}")
