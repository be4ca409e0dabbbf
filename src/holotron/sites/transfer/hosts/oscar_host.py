"""Runs django-oscar. Started as a script by an interpreter that has it beside it; imports nothing of holotron.

    python -I oscar_host.py prepare FOLDER        make the database and pictures that every episode is a copy of
    python -I oscar_host.py serve FOLDER [PORT]   serve FOLDER/<episode>/; says its port; ends when its input ends

The shop is Oscar's own, with its own templates, and its default checkout: an address, then a preview. Everybody is
signed in as `alex`, who shops there and may also use the dashboard. Each request works on the database of its episode:
a connection belongs to one thread, and every request has a thread of its own.
"""

import mimetypes
import os
import sys
from typing import Any

ME = "alex"
DATABASE = "shop.db"


class Thumbnailer:
    """Pictures are small enough to be shown as they are."""

    def generate_thumbnail(self, source: Any, **options: Any) -> Any:
        return source

    def delete_thumbnails(self, source: Any) -> None:
        pass


class NoMigrations:
    """Tables are made as the models are today: the history of three hundred migrations takes a minute."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


def configure(database: str, media: str) -> None:
    import django
    import oscar.defaults
    from django.conf import settings
    from oscar import INSTALLED_APPS

    theirs = {name: value for name, value in vars(oscar.defaults).items() if name.startswith("OSCAR_")}
    processors = (
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.template.context_processors.i18n", "django.contrib.messages.context_processors.messages",
        "oscar.apps.search.context_processors.search_form", "oscar.apps.checkout.context_processors.checkout",
        "oscar.apps.communication.notifications.context_processors.notifications",
        "oscar.core.context_processors.metadata",
    )  # fmt: skip
    ours = {
        "SECRET_KEY": "a shop that is thrown away after every episode",
        "ALLOWED_HOSTS": ["*"],
        "INSTALLED_APPS": INSTALLED_APPS,
        "SITE_ID": 1,
        "ROOT_URLCONF": __name__,
        "DATABASES": {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database, "OPTIONS": {"timeout": 20}}
        },
        "ATOMIC_REQUESTS": True,
        "MIGRATION_MODULES": NoMigrations(),
        "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
        "MIDDLEWARE": [
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.RemoteUserMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
            "oscar.apps.basket.middleware.BasketMiddleware",
        ],
        "AUTHENTICATION_BACKENDS": ["django.contrib.auth.backends.RemoteUserBackend"],
        "TEMPLATES": [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": list(processors)},
            }
        ],
        "CACHES": {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},  # episodes share nothing
        "HAYSTACK_CONNECTIONS": {"default": {"ENGINE": "oscar_search.DatabaseEngine"}},
        "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        "STATIC_URL": "/static/",
        "MEDIA_URL": "/media/",
        "MEDIA_ROOT": media,
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "LANGUAGE_CODE": "en-gb",
        "OSCAR_SHOP_NAME": "Quayside",
        "OSCAR_SHOP_TAGLINE": "Household goods",
        "OSCAR_THUMBNAILER": f"{__name__}.Thumbnailer",
        "OSCAR_MODERATE_REVIEWS": True,
        "OSCAR_INITIAL_ORDER_STATUS": "Pending",
        "OSCAR_INITIAL_LINE_STATUS": "Pending",
        "OSCAR_ORDER_STATUS_PIPELINE": {
            "Pending": ("Being processed", "Cancelled"),
            "Being processed": ("Complete", "Cancelled"),
            "Complete": (),
            "Cancelled": (),
        },
    }
    settings.configure(**(theirs | ours))
    django.setup()


def prepare(folder: str) -> None:
    os.makedirs(os.path.join(folder, "media"))
    configure(os.path.join(folder, DATABASE), os.path.join(folder, "media"))
    from django.core.management import call_command
    from oscar_data import fill

    call_command("migrate", run_syncdb=True, verbosity=0)
    fill(ME, os.path.join(folder, "media"))


urlpatterns: list[Any] = []


def load(folder: str) -> tuple[Any, Any]:
    configure(":memory:", "")
    from django.apps import apps
    from django.core.wsgi import get_wsgi_application
    from django.db import connection
    from django.urls import include, path

    urlpatterns.extend(
        [path("i18n/", include("django.conf.urls.i18n")), path("", include(apps.get_app_config("oscar").urls[0]))]
    )
    django_answer = get_wsgi_application()
    shared = connection.settings_dict

    def answer(environ: dict[str, Any], start_response: Any, path: str) -> Any:
        place = environ.get("PATH_INFO", "")
        if place.startswith(("/static/", "/media/")):
            return _file(place, path, start_response)
        connection.close()
        connection.settings_dict = shared | {"NAME": os.path.join(path, DATABASE)}
        environ["REMOTE_USER"] = ME
        try:
            return [b"".join(django_answer(environ, start_response))]
        finally:
            connection.close()

    return answer, lambda path: None


def _file(place: str, episode: str, start_response: Any) -> list[bytes]:
    """What Django leaves to a web server."""
    from django.contrib.staticfiles import finders

    kind, _, name = place[1:].partition("/")
    name = os.path.normpath(name)
    if name.startswith(("..", "/")):  # out of its folder
        found = None
    else:
        found = finders.find(name) if kind == "static" else os.path.join(episode, "media", name)
    if not found or not os.path.isfile(found):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Not found."]
    with open(found, "rb") as file:
        content = file.read()
    type_ = mimetypes.guess_type(found)[0] or "application/octet-stream"
    start_response("200 OK", [("Content-Type", type_), ("Cache-Control", "max-age=3600")])
    return [content]


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from wsgi_host import main

    main(prepare, load)
