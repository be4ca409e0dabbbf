"""Which requests change the world, judged by what they are: method, address, content, and what was typed.

    judge(Sent("POST", "https://shop.example/order", "Document", body=b"item=3"), typed, "")

Everything but GET, HEAD and OPTIONS does, unless it is recognised as reading: a GraphQL query, a POST to a search.
These do where they take typed text to another site, send a form that is no search, or say of themselves that they do
something (`words`). Whose doing a request is, the agent's or the page's own, is `background`'s to say.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from holotron.addresses import in_url
from holotron.envs.effects.question import Kind
from holotron.envs.effects.typed import Typed, is_payment, is_personal
from holotron.envs.effects.words import deed_in_address, deed_in_name, looks_like_search, words

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
MESSAGE = 80  # characters of typed text that are no search any more
FORM_FIELDS = 3  # as many typed values in an address are a form
_SECRET_FIELDS = frozenset({"password", "passwd", "pass", "pwd", "pin", "cvv", "cvc", "ssn", "otp"})
_READS = frozenset({"Image", "Script", "Stylesheet", "Media", "Font", "Manifest", "TextTrack"})
_NAMED = _READS | {"WebSocket"}  # which are called after what they are about
_PICTURE = re.compile(r"\.(png|jpe?g|gif|svg|webp|avif|ico|bmp)$", re.IGNORECASE)
_OTHER_FILES = """
    [cm]?[jt]sx?|vue|svelte|css|s[ac]ss|less|wasm|webmanifest|woff2?|[ot]tf|eot
    |mp[34]|m4[asv]|webm|og[agv]|wav|aac|flac|m3u8|mpd|vtt|srt
"""
_OTHER_FILE = re.compile(rf"\.({''.join(_OTHER_FILES.split())})$", re.IGNORECASE)
_OVERRIDES = ("x-http-method-override", "x-http-method", "x-method-override")
_OPERATION = re.compile(r"\b(mutation|subscription)\b")
# Texts and comments in a GraphQL document; one that does not end goes on to the end of the document.
_GRAPHQL_TEXT = re.compile(r'"""[\s\S]*?(?:"""|\Z)|"(?:\\.|[^"\\])*+(?:"|\Z)|#[^\r\n]*')
# Headers that a browser writes by itself, and what it puts into the rest of those that a page can write as well.
_OF_THE_BROWSER = frozenset({"user-agent", "origin", "host", "connection", "content-length"})
_USUAL_WORDS = """
    text html xhtml plain javascript json event stream image avif webp apng video audio application signed exchange
    multipart form data urlencoded charset gzip deflate zstd cache
"""
_USUAL = frozenset(_USUAL_WORDS.split())
_GRAPHQL = frozenset({"query", "variables", "operationName", "extensions"})


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that wants to leave."""

    method: str
    url: str
    resource: str  # the browser's word for what it is for: Document, XHR, Ping ...
    page: str = ""  # the address of the page it comes from
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    unseen: bool = False  # it has a body that the browser does not show, a file for example
    fragment: str = ""  # of a page's address: it is not sent, but the page that is opened reads it

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def said(self) -> str:
        """All in which a page can say something: address, headers, body."""
        headers = (f"{name}: {value}" for name, value in self.chosen().items())
        return "\n".join([self.url, self.fragment, *headers, self.text])

    def chosen(self) -> dict[str, str]:
        """The headers that somebody has chosen, without what browsers put into all of them. Of the page that a request
        comes from its path counts, which other sites are told only where the page says so."""
        found = {}
        for name, value in self.headers.items():
            name = name.lower()
            if name == "referer":
                value = urlsplit(value)._replace(scheme="", netloc="").geturl()
            if name not in _OF_THE_BROWSER and not name.startswith("sec-ch-") and not _is_usual(value):
                found[name] = value
        return found

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), "")


def _is_usual(value: str) -> bool:
    """Whether a header holds nothing but what browsers write: kinds of content, languages, small numbers."""
    return all(len(word) <= 3 or word in _USUAL for word in re.findall(r"[^\W_]+", value.lower()))


@dataclass(frozen=True, slots=True)
class Effect:
    """What a request would bring about. `silent`: refused without a question, nobody misses it."""

    kind: Kind
    why: str  # completes "POST to shop.example: "
    certain: bool = False  # asked about even if the page sends the like by itself
    silent: bool = False


def judge(sent: Sent, typed: Typed, control: str) -> Effect | None:
    """None: it changes nothing that anybody would want to be asked about."""
    if any(method.upper() not in SAFE for method in (sent.method, *_overriding(sent))):
        return _changing(sent, typed)
    if sent.method == "OPTIONS" and sent.header("Access-Control-Request-Method"):
        return _telling(sent, typed)  # the browser asks a site whether it may send something, before that is held
    return _telling(sent, typed) or _reading(sent, typed, control)


def _overriding(sent: Sent) -> list[str]:
    """Some servers take the method from a header instead."""
    return [value for name in _OVERRIDES if (value := sent.header(name).strip())]


def _changing(sent: Sent, typed: Typed) -> Effect | None:
    carried = to_other_sites(typed.carried_by(sent.said), sent.url)
    if sent.resource == "CSPViolationReport":
        return Effect(Kind.BEACON, "the browser reports to a site", silent=True)
    if sent.resource == "Ping":
        other = not same_site(sent.url, sent.page)
        return Effect(Kind.BEACON, "is sent without an answer", certain=bool(carried), silent=other)
    if carried:
        return Effect(_kind(sent), "takes typed text to another site", certain=True)
    if _only_reads(sent):
        return None
    mutation = bool(_OPERATION.search(sent.text[:2000]))
    return Effect(_kind(sent), "may change something there", certain=sent.resource == "Document" or mutation)


def _kind(sent: Sent) -> Kind:
    return Kind.FORM if sent.resource == "Document" else Kind.REQUEST


def _only_reads(sent: Sent) -> bool:
    """Reading that is written as POST because an address would be too short for the question."""
    if sent.method.upper() != "POST" or sent.unseen:
        return False
    if sent.resource == "Document":
        fields = [(name, value) for name, value in parse_qsl(sent.text) if value]
        named = looks_like_search(urlsplit(sent.url).path, []) and looks_like_search("", [name for name, _ in fields])
        return named and len(fields) == 1 and not is_personal(fields[0][1])
    if any(name in _GRAPHQL for name, _ in parse_qsl(urlsplit(sent.url).query)):
        return False  # to some servers these are what is asked, and not what the body says
    try:
        said = json.loads(sent.text)
    except ValueError:
        return False
    operations = said if isinstance(said, list) else [said]
    queries = [one.get("query") if isinstance(one, dict) and one.keys() <= _GRAPHQL else None for one in operations]
    return bool(queries) and all(isinstance(one, str) and _is_query(one) for one in queries)


def _is_query(text: str) -> bool:
    """GraphQL that reads. Texts inside it may hold any word; other operations beside the query may not stand in it."""
    bare = _GRAPHQL_TEXT.sub('""', text)
    return bool(re.match(r"\s*(query\b|\{|fragment\b)", bare)) and "{" in bare and not _OPERATION.search(bare)


def _telling(sent: Sent, typed: Typed) -> Effect | None:
    if to_other_sites(typed.carried_by(sent.said), sent.url):
        return Effect(Kind.NAVIGATION, "takes typed text to another site", certain=True)
    return None


def _reading(sent: Sent, typed: Typed, control: str) -> Effect | None:
    navigates = sent.resource == "Document"
    if sent.resource in _READS and _is_file(sent):
        return None
    if navigates and typed.carried_by(sent.url) and _is_form(sent.url, typed):
        return Effect(Kind.FORM, "sends a form in an address", certain=True)
    if any(name == "query" and _OPERATION.match(value.lstrip()) for name, value in parse_qsl(urlsplit(sent.url).query)):
        return Effect(Kind.REQUEST, "may change something there", certain=True)
    if deed := deed_in_address(sent.url, by_script=not navigates and sent.resource not in _NAMED):
        return Effect(Kind.NAVIGATION, f'calls itself "{deed}"')
    if navigates and (deed := deed_in_name(control)):
        return Effect(Kind.NAVIGATION, f'opens what "{deed}" stands on')
    return None


def _is_file(sent: Sent) -> bool:
    """Whether its address is that of a file, whose name says what it is about. A picture that is called as a script is
    no file."""
    path = urlsplit(sent.url).path
    return bool(_PICTURE.search(path) or (sent.resource != "Image" and _OTHER_FILE.search(path)))


def _is_form(url: str, typed: Typed) -> bool:
    """Whether typed text in an address is more than a search or a filter."""
    fields = [(name, value) for name, value in parse_qsl(urlsplit(url).query) if typed.carried_by(value)]
    if any(_SECRET_FIELDS & set(words(name)) or is_payment(value) for name, value in fields):
        return True
    if looks_like_search(urlsplit(url).path, [name for name, _ in fields]):
        return False
    return len(fields) >= FORM_FIELDS or any(is_personal(value) or len(value) > MESSAGE for _, value in fields)


def to_other_sites(carried: Mapping[str, str], url: str) -> bool:
    return any(not same_site(url, site) for site in carried.values())


# ------------------------------------------------------------------------------------------------------------- sites

# Below these, every name belongs to somebody else. Not the whole public suffix list: in doubt, names are apart.
_SHARED = frozenset({"co", "com", "org", "net", "ac", "gov", "edu", "ne", "or", "go", "gob", "nom", "blogspot"})
_HOSTING = """
    github.io gitlab.io herokuapp.com netlify.app vercel.app pages.dev workers.dev web.app firebaseapp.com appspot.com
    azurewebsites.net cloudfront.net amazonaws.com blogspot.com wordpress.com myshopify.com fly.dev onrender.com
    surge.sh glitch.me translate.goog googleapis.com
"""
_HOSTS = frozenset(_HOSTING.split())


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    host = in_url(parts.hostname or "")
    return f"{scheme}://{host}" + (f":{parts.port}" if parts.port else "") if host else f"{parts.scheme}:"


def same_site(one: str, other: str) -> bool:
    """Whether two addresses belong to one site: the same name below what is sold as a name. Addresses by number, and
    names without a dot, are one site only with the same port."""
    a, b = urlsplit(one), urlsplit(other)
    if not a.hostname or not b.hostname:
        return False
    if a.netloc.rpartition("@")[2] == b.netloc.rpartition("@")[2]:
        return True
    return "" != _site(a.hostname) == _site(b.hostname)


def _site(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.rstrip(".").split(".")
        if len(labels) < 2:
            return ""
        short = ".".join(labels[-2:])
        shared = short in _HOSTS or (labels[-2] in _SHARED and len(labels[-1]) == 2)
        return short if not shared else ".".join(labels[-3:]) if len(labels) > 2 else ""
    return ""
