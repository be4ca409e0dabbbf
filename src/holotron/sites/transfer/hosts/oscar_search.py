"""The shop's search and catalogue pages, answered by its own database. Runs beside django-oscar, not beside us.

Oscar asks Haystack for its lists of products. Haystack's own engine without an index looks for the last word alone and
finds nothing when a category is opened; an index would have to be copied with every episode. So: all words, anywhere in
title, description or number, among the products that are public; by category; in the order that the page asks for.
"""

import json
from typing import Any

from haystack.backends import BaseEngine, BaseSearchBackend, BaseSearchQuery, SearchNode, log_query
from haystack.models import SearchResult

ORDER = {"price": "stockrecords__price", "title_exact": "title", "rating": "rating", "date_created": "date_created"}


class DatabaseBackend(BaseSearchBackend):
    def update(self, indexer: Any, iterable: Any, commit: bool = True) -> None:
        pass

    def remove(self, obj: Any, commit: bool = True) -> None:
        pass

    def clear(self, models: Any = None, commit: bool = True) -> None:
        pass

    def build_search_kwargs(self, query_string: str, **options: Any) -> dict[str, Any]:
        return options

    @log_query
    def search(self, query_string: str, **options: Any) -> dict[str, Any]:
        from django.db.models import Q
        from oscar.core.loading import get_model

        found = get_model("catalogue", "Product").objects.filter(is_public=True)
        for field, value in json.loads(query_string):
            if field.startswith("category"):
                found = found.filter(categories__pk__in=value)
            elif field.startswith("structure"):
                found = found.filter(structure__in=value)
            elif field.startswith("content"):
                for word in str(value).split():
                    found = found.filter(Q(title__icontains=word) | Q(description__icontains=word) | Q(upc=word))
        wanted = [key for key in options.get("sort_by") or () if key.lstrip("-") in ORDER]
        order = [("-" if key.startswith("-") else "") + ORDER[key.lstrip("-")] for key in wanted]
        found = found.order_by(*order, "id").distinct()
        kind = options.get("result_class") or SearchResult
        results = []
        for product in found[options.get("start_offset") or 0 : options.get("end_offset")]:
            result = kind("catalogue", "product", product.pk, 0)
            result._model, result._object = type(product), product
            results.append(result)
        return {"results": results, "hits": found.count()}


class DatabaseQuery(BaseSearchQuery):
    """What is asked for, as a list of fields and values; all of them must hold."""

    def build_query(self) -> str:
        return json.dumps(list(self._conditions(self.query_filter)))

    def _conditions(self, node: Any) -> Any:
        for child in node.children:
            if isinstance(child, SearchNode):
                yield from self._conditions(child)
            else:
                field, value = child
                value = getattr(value, "query_string", value)
                yield field, list(value) if isinstance(value, list | tuple | set) else str(value)

    def build_params(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        params = super().build_params(*arguments, **options)
        if self.order_by:
            params["sort_by"] = list(self.order_by)
        return params


class DatabaseEngine(BaseEngine):
    backend = DatabaseBackend
    query = DatabaseQuery
