"""Made-up people and places for the data of apps, by language. Nobody here exists; mail goes to `.example` hosts."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass


def _lists(texts: dict[str, str], mark: str | None = None) -> dict[str, list[str]]:
    return {language: text.split(mark) for language, text in texts.items()}


# fmt: off
_GIVEN = _lists({
    "en": "Alice Ben Clara Daniel Edith Felix Grace Harry Isla Jonah Kate Liam Maya Noah Olive Peter Ruth Simon Tessa "
          "Victor Wendy Zoe Amber Colin Heather Owen",
    "de": "Anja Bernd Carla Dirk Eva Frieda Georg Hanna Ines Jonas Katrin Lukas Mara Nils Oda Paul Rike Stefan Tim Ute "
          "Volker Wiebke Jürgen Käthe",
    "fr": "Adèle Bruno Claire Denis Élise Fabien Gaëlle Hugo Inès Jules Léa Marc Nadia Olivier Pauline Rémi Sophie "
          "Théo Valérie Yves",
    "es": "Alba Bruno Carmen Diego Elena Fermín Gloria Hugo Inés Jorge Lucía Marta Nuria Óscar Pilar Raúl Sofía Tomás "
          "Vera Yolanda",
})
_FAMILY = _lists({
    "en": "Adams Barker Clarke Dawson Ellis Fletcher Graham Hughes Ingram Jarvis Knight Lawson Mercer Norris Osborne "
          "Parker Quinn Reeves Shaw Turner Vaughn Walsh York Bennett Foster Holt",
    "de": "Albrecht Becker Conrad Dietz Ebert Fuchs Gruber Hartmann Jansen Keller Lorenz Maurer Neumann Otto Pohl "
          "Richter Schäfer Thiele Vogel Weiß Zimmer Brandt",
    "fr": "Aubert Blanc Caron Dupuis Fabre Garnier Hamel Imbert Joly Lambert Marchand Noël Perrin Renaud Simon Tessier "
          "Vidal Moreau Lefèvre",
    "es": "Alonso Blanco Castro Díaz Esteban Fuentes Gil Herrero Iglesias Lozano Marín Navarro Ortega Peña Rubio "
          "Santos Torres Vega Zamora",
})
_STREETS = _lists({
    "en": "Maple Street,Orchard Lane,Mill Road,Station Road,Harbour View,Church Lane,King Street",
    "de": "Lindenstraße,Gartenweg,Am Markt,Schulstraße,Bergweg,Hafenstraße,Mühlenweg,Ringstraße",
    "fr": "rue des Lilas,avenue de la Gare,rue du Moulin,place du Marché,rue Pasteur,chemin Vert",
    "es": "calle Mayor,calle del Sol,avenida del Puerto,calle Nueva,plaza del Olmo,calle Real",
}, ",")
_CITIES = _lists({
    "en": "Ashford,Bristol,Carlisle,Durham,Exeter,Lincoln,Norwich,Oxford,Preston,Salford",
    "de": "Bremen,Dresden,Erfurt,Freiburg,Kassel,Lübeck,Mainz,Münster,Rostock,Ulm",
    "fr": "Angers,Dijon,Grenoble,Lille,Metz,Nantes,Nîmes,Rennes,Tours",
    "es": "Burgos,Cádiz,Gijón,Huelva,León,Murcia,Oviedo,Soria,Toledo",
}, ",")
# fmt: on


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Address:
    name: str
    street: str
    postcode: str
    city: str


def plain(text: str) -> str:
    """ASCII letters only, as addresses of mail are written."""
    text = text.replace("ß", "ss").replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    return "".join(c for c in unicodedata.normalize("NFKD", text) if c.isascii())


def people(dice: random.Random, language: str, count: int, host: str = "mail.example") -> list[Person]:
    """Different people, each with an address of their own."""
    given, family = _GIVEN[language], _FAMILY[language]
    pairs = (divmod(number, len(family)) for number in dice.sample(range(len(given) * len(family)), count))
    names = [(given[first], family[last]) for first, last in pairs]
    return [Person(f"{a} {b}", f"{plain(a).lower()}.{plain(b).lower()}@{host}") for a, b in names]


def address(dice: random.Random, language: str, name: str) -> Address:
    number, street = dice.randrange(1, 120), dice.choice(_STREETS[language])
    written = f"{number} {street}" if language in ("en", "fr") else f"{street} {number}"
    return Address(name, written, f"{dice.randrange(10_000, 99_999)}", dice.choice(_CITIES[language]))


def password(dice: random.Random) -> str:
    """One that can be read and typed without doubt."""
    word = dice.choice(
        ("amber", "birch", "cedar", "ember", "fjord", "grove", "heron", "ivory", "koala", "lemon", "opal")
    )
    return f"{word}-{dice.randrange(100, 999)}"
