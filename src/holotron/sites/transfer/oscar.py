"""django-oscar, a web shop with a dashboard for its staff, as a transfer set.

What counts as the state is what a customer or an employee would call so: the open basket, orders with their lines and
notes, addresses, wish lists, reviews, products with stock and prices, categories, vouchers, pages. Visits, views,
e-mails, and what Oscar counts for itself do not.
"""

from __future__ import annotations

from holotron.sites.transfer import oscar_staff_tasks  # adds to the list
from holotron.sites.transfer.application import Application
from holotron.sites.transfer.oscar_tasks import tasks

assert oscar_staff_tasks.tasks is tasks

OSCAR = Application(
    name="oscar",
    title="django-oscar",
    packages=("django-oscar==4.2.1", "Django==5.2.19"),
    host="quayside.example",
    data=1,
    database="shop.db",
    queries={
        "basket": "select l.id key, p.title product, l.quantity from basket_line l join catalogue_product p "
        "on p.id = l.product_id join basket_basket b on b.id = l.basket_id where b.status = 'Open' and b.owner_id = 1",
        "basket_voucher": "select x.id key, v.code from basket_basket_vouchers x join voucher_voucher v "
        "on v.id = x.voucher_id join basket_basket b on b.id = x.basket_id where b.status = 'Open'",
        "saved": "select l.id key, p.title product, l.quantity from basket_line l join catalogue_product p "
        "on p.id = l.product_id join basket_basket b on b.id = l.basket_id where b.status = 'Saved'",
        "orders": "select o.id key, o.id, o.number, o.status, u.first_name || ' ' || u.last_name customer, a.line1, "
        "printf('%.2f', o.total_incl_tax) total from order_order o left join order_shippingaddress a "
        "on a.id = o.shipping_address_id left join auth_user u on u.id = o.user_id",
        "order_lines": "select id key, order_id, title product, quantity, status from order_line",
        "order_discounts": "select id key, order_id, voucher_code from order_orderdiscount",
        "order_notes": "select id key, order_id, message from order_ordernote where note_type != 'System'",
        "addresses": "select id key, id, first_name, last_name, line1, line2, line4, state, postcode, "
        "is_default_for_shipping, is_default_for_billing from address_useraddress",
        "wishlists": "select id key, id, name, visibility from wishlists_wishlist",
        "wishes": "select l.id key, w.name list, p.title product, l.quantity from wishlists_line l "
        "join wishlists_wishlist w on w.id = l.wishlist_id join catalogue_product p on p.id = l.product_id",
        "reviews": "select r.id key, r.id, p.title product, r.title, r.score, r.body, r.status, r.user_id "
        "from reviews_productreview r join catalogue_product p on p.id = r.product_id",
        "votes": "select id key, review_id, delta from reviews_vote",
        "alerts": "select a.id key, p.title product, a.status from customer_productalert a "
        "join catalogue_product p on p.id = a.product_id",
        "products": "select id key, id, title, upc, description, is_public, is_discountable from catalogue_product",
        "product_categories": "select x.id key, x.product_id, c.name from catalogue_productcategory x "
        "join catalogue_category c on c.id = x.category_id",
        "stock": "select s.id key, s.id, p.title product, s.partner_sku, printf('%.2f', s.price) price, "
        "s.num_in_stock, s.low_stock_threshold from partner_stockrecord s "
        "join catalogue_product p on p.id = s.product_id",
        "categories": "select id key, id, name, is_public from catalogue_category",
        "vouchers": "select id key, id, name, code, usage, date(end_datetime) ends from voucher_voucher",
        "ranges": "select id key, id, name from offer_range",
        "range_products": "select x.id key, r.name range, p.title product from offer_rangeproduct x "
        "join offer_range r on r.id = x.range_id join catalogue_product p on p.id = x.product_id",
        "offers": "select id key, id, name, status from offer_conditionaloffer",
        "partners": "select id key, id, name from partner_partner",
        "pages": "select id key, id, url, title, content from django_flatpage",
        "users": "select id key, id, first_name, last_name, email from auth_user",
    },
    tasks=tasks,
    irrevocable=frozenset({"orders", "order_notes", "reviews"}),
)
