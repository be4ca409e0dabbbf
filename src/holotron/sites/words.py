"""The words of the interface in four languages, and how numbers and dates are written in each.

An app brings a table of its own, `{"add_to_cart": ("Add to cart", "In den Warenkorb", "Ajouter au panier", "Añadir al
carrito")}`, in the order of `LANGUAGES`. Texts may hold `{fields}`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from holotron.errors import ConfigError

LANGUAGES = ("en", "de", "fr", "es")
Table = Mapping[str, tuple[str, str, str, str]]

# fmt: off
COMMON: Table = {
    "menu": ("Menu", "Menü", "Menu", "Menú"),
    "search": ("Search", "Suchen", "Rechercher", "Buscar"),
    "sign_in": ("Sign in", "Anmelden", "Se connecter", "Iniciar sesión"),
    "sign_out": ("Sign out", "Abmelden", "Se déconnecter", "Cerrar sesión"),
    "email": ("Email", "E-Mail", "E-mail", "Correo electrónico"),
    "password": ("Password", "Passwort", "Mot de passe", "Contraseña"),
    "save": ("Save", "Speichern", "Enregistrer", "Guardar"),
    "cancel": ("Cancel", "Abbrechen", "Annuler", "Cancelar"),
    "delete": ("Delete", "Löschen", "Supprimer", "Eliminar"),
    "edit": ("Edit", "Bearbeiten", "Modifier", "Editar"),
    "back": ("Back", "Zurück", "Retour", "Volver"),
    "close": ("Close", "Schließen", "Fermer", "Cerrar"),
    "next": ("Next", "Weiter", "Suivant", "Siguiente"),
    "previous": ("Previous", "Zurück", "Précédent", "Anterior"),
    "page_of": ("Page {page} of {pages}", "Seite {page} von {pages}", "Page {page} sur {pages}",
                "Página {page} de {pages}"),
    "wrong_login": ("Email or password is not right.", "E-Mail oder Passwort ist falsch.",
                    "E-mail ou mot de passe incorrect.", "El correo o la contraseña no son correctos."),
    "session_over": ("Your session has expired. Please sign in again.",
                     "Ihre Sitzung ist abgelaufen. Bitte melden Sie sich erneut an.",
                     "Votre session a expiré. Veuillez vous reconnecter.",
                     "Su sesión ha caducado. Inicie sesión de nuevo."),
    "please_sign_in": ("Please sign in to continue.", "Bitte melden Sie sich an.", "Veuillez vous connecter.",
                       "Inicie sesión para continuar."),
    "not_found": ("Page not found", "Seite nicht gefunden", "Page introuvable", "Página no encontrada"),
    "not_found_more": ("This page does not exist any more.", "Diese Seite gibt es nicht mehr.",
                       "Cette page n'existe plus.", "Esta página ya no existe."),
    "home": ("Home", "Startseite", "Accueil", "Inicio"),
    "loading": ("Loading …", "Wird geladen …", "Chargement …", "Cargando …"),
    "loading_more": ("This can take a few seconds.", "Das kann einige Sekunden dauern.",
                     "Cela peut prendre quelques secondes.", "Puede tardar unos segundos."),
    "cookies": ("We use cookies to make this site work and to understand how it is used.",
                "Wir verwenden Cookies, damit diese Seite funktioniert und um ihre Nutzung zu verstehen.",
                "Nous utilisons des cookies pour faire fonctionner ce site et comprendre son usage.",
                "Usamos cookies para que este sitio funcione y para entender cómo se usa."),
    "accept_all": ("Accept all", "Alle akzeptieren", "Tout accepter", "Aceptar todo"),
    "only_needed": ("Only necessary", "Nur notwendige", "Nécessaires seulement", "Solo las necesarias"),
    "newsletter": ("Stay in the loop", "Bleiben Sie auf dem Laufenden", "Restez informé", "Manténgase al día"),
    "newsletter_more": ("News and offers once a month. No spam, promised.",
                        "Einmal im Monat Neues und Angebote. Versprochen: kein Spam.",
                        "Des nouvelles et des offres une fois par mois. Sans spam.",
                        "Novedades y ofertas una vez al mes. Sin spam."),
    "no_thanks": ("No, thanks", "Nein, danke", "Non, merci", "No, gracias"),
    "please_correct": ("Please correct the marked fields.", "Bitte korrigieren Sie die markierten Felder.",
                       "Veuillez corriger les champs indiqués.", "Corrija los campos marcados."),
    "required": ("Please fill in this field.", "Bitte füllen Sie dieses Feld aus.", "Veuillez remplir ce champ.",
                 "Rellene este campo."),
}
_MONTHS = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "es": "ene feb mar abr may jun jul ago sep oct nov dic",
}
# fmt: on


class Words:
    """All texts of one app in one language."""

    def __init__(self, language: str, own: Table) -> None:
        self.language = language
        index = LANGUAGES.index(language)
        self._texts = {key: texts[index] for key, texts in (*COMMON.items(), *own.items())}

    def __call__(self, key: str, **fields: object) -> str:
        text = self._texts.get(key)
        if text is None:
            raise ConfigError(f"there is no text {key!r}; add it to the app's table of words")
        return text.format(**fields) if fields else text

    def money(self, cents: int) -> str:
        """English shops take dollars, the others euros."""
        whole, rest = divmod(abs(cents), 100)
        grouped = f"{whole:,}"
        sign = "-" if cents < 0 else ""
        if self.language == "en":
            return f"{sign}${grouped}.{rest:02d}"
        mark = {"de": ".", "fr": "\u202f", "es": "."}[self.language]
        return f"{sign}{grouped.replace(',', mark)},{rest:02d}\u00a0€"

    def date(self, day: datetime.date | str) -> str:
        """Takes dates as databases hold them, `2025-03-09`."""
        day = datetime.date.fromisoformat(day) if isinstance(day, str) else day
        month = _MONTHS[self.language].split()[day.month - 1]
        return {"en": f"{month} {day.day}, {day.year}", "de": f"{day.day}. {month} {day.year}"}.get(
            self.language, f"{day.day} {month} {day.year}"
        )
