"""A shop: catalogue with search, filters and sorting, product pages with variants, cart with coupons, checkout with a
form that rejects, orders, returns, reviews, wish list, account with addresses."""

from holotron.sites.apps.shop import account, buying, catalogue, longer_tasks  # noqa: F401  (they register themselves)
from holotron.sites.apps.shop.app import app
from holotron.sites.apps.shop.tasks import templates

__all__ = ["app", "templates"]
