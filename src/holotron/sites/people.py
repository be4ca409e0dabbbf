"""Made-up people and places for the data of apps, by language. Nobody here exists; mail goes to `.example` hosts."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass

# fmt: off
_GIVEN = {
    "en": "Alice Ben Clara Daniel Edith Felix Grace Harry Isla Jonah Kate Liam Maya Noah Olive Peter Ruth Simon Tessa "
          "Victor Wendy Zoe Amber Colin Heather Owen".split(),
    "de": "Anja Bernd Carla Dirk Eva Frieda Georg Hanna Ines Jonas Katrin Lukas Mara Nils Oda Paul Rike Stefan Tim Ute "
          "Volker Wiebke Jürgen Käthe".split(),
    "fr": "Adèle Bruno Claire Denis Élise Fabien Gaëlle Hugo Inès Jules Léa Marc Nadia Olivier Pauline Rémi Sophie "
          "Théo Valérie Yves".split(),
    "es": "Alba Bruno Carmen Diego Elena Fermín Gloria Hugo Inés Jorge Lucía Marta Nuria Óscar Pilar Raúl Sofía Tomás "
          "Vera Yolanda".split(),
}
_FAMILY = {
    "en": "Adams Barker Clarke Dawson Ellis Fletcher Graham Hughes Ingram Jarvis Knight Lawson Mercer Norris Osborne "
          "Parker Quinn Reeves Shaw Turner Vaughn Walsh York Bennett Foster Holt".split(),
    "de": "Albrecht Becker Conrad Dietz Ebert Fuchs Gruber Hartmann Jansen Keller Lorenz Maurer Neumann Otto Pohl Richter "
          "Schäfer Thiele Vogel Weiß Zimmer Brandt".split(),
    "fr": "Aubert Blanc Caron Dupuis Fabre Garnier Hamel Imbert Joly Lambert Marchand Noël Perrin Renaud Simon Tessier "
          "Vidal Moreau Lefèvre".split(),
    "es": "Alonso Blanco Castro Díaz Esteban Fuentes Gil Herrero Iglesias Lozano Marín Navarro Ortega Peña Rubio Santos "
          "Torres Vega Zamora".split(),
}
_STREETS = {
    "en": "Maple Street,Orchard Lane,Mill Road,Station Road,Harbour View,Church Lane,Willow Avenue,King Street".split(","),
    "de": "Lindenstraße,Gartenweg,Am Markt,Schulstraße,Bergweg,Hafenstraße,Mühlenweg,Ringstraße".split(","),
    "fr": "rue des Lilas,avenue de la Gare,rue du Moulin,place du Marché,rue Pasteur,chemin Vert".split(","),
    "es": "calle Mayor,calle del Sol,avenida del Puerto,calle Nueva,plaza del Olmo,calle Real".split(","),
}
_CITIES = {
    "en": "Ashford,Bristol,Carlisle,Durham,Exeter,Lincoln,Norwich,Oxford,Preston,Salford".split(","),
    "de": "Bremen,Dresden,Erfurt,Freiburg,Kassel,Lübeck,Mainz,Münster,Rostock,Ulm".split(","),
    "fr": "Angers,Dijon,Grenoble,Lille,Metz,Nantes,Nîmes,Rennes,Tours".split(","),
    "es": "Burgos,Cádiz,Gijón,Huelva,León,Murcia,Oviedo,Soria,Toledo".split(","),
}
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
    pairs = [(given, family) for given in _GIVEN[language] for family in _FAMILY[language]]
    return [
        Person(f"{given} {family}", f"{plain(given).lower()}.{plain(family).lower()}@{host}")
        for given, family in dice.sample(pairs, count)
    ]


def address(dice: random.Random, language: str, name: str) -> Address:
    number, street = dice.randrange(1, 120), dice.choice(_STREETS[language])
    written = f"{number} {street}" if language in ("en", "fr") else f"{street} {number}"
    return Address(name, written, f"{dice.randrange(10_000, 99_999)}", dice.choice(_CITIES[language]))


def password(dice: random.Random) -> str:
    """One that can be read and typed without doubt."""
    word = dice.choice("amber birch cedar delta ember fjord grove heron ivory koala lemon maple nylon opal".split())
    return f"{word}-{dice.randrange(100, 999)}"
