"""A shop: catalogue with search, filters and sorting, product pages with variants, cart with coupons, checkout with a
form that rejects, orders, returns, reviews, wish list, account with addresses."""

from holotron.sites.apps.shop import account, buying, catalogue  # noqa: F401  (importing them registers their pages)
from holotron.sites.apps.shop.app import app
from holotron.sites.apps.shop.tasks import templates

__all__ = ["app", "templates"]
