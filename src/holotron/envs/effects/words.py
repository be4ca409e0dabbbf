"""Words by which an address, or what was pressed, says that opening it does something; and words of searches.

Only used for GET requests, which by the rules of the web change nothing: where one does all the same, its name is the
only sign. For everything else the method decides, in whatever language the page speaks.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

# To open such an address is to do it.
_DEEDS = """
    delete remove destroy erase purge logout signout unsubscribe deactivate pay purchase confirm approve cancel transfer
    publish revoke vote terminate optout resign withdraw
    löschen loeschen entfernen abmelden kündigen kuendigen bezahlen zahlen kaufen stornieren bestätigen bestaetigen
    überweisen ueberweisen veröffentlichen
    supprimer effacer payer acheter résilier resilier annuler confirmer virement désabonner desabonner publier
    eliminar borrar pagar comprar confirmar cancelar transferir publicar anular
    excluir apagar remover
    elimina eliminare cancella cancellare paga pagare acquista conferma confermare bonifico pubblica
    verwijderen betalen kopen bevestigen annuleren opzeggen overmaken
    usuń usun zapłać zaplac kup potwierdź potwierdz anuluj
    ta-bort radera betala köp bekräfta slet betal slett kjøp
    sil öde ode onayla iptal
    удалить оплатить купить подтвердить отменить перевести
    видалити оплатити купити підтвердити
    削除 支払 支払う 購入 確認する 送金 注文 退会
    删除 支付 购买 确认支付 转账 注销 刪除 購買 轉帳
    삭제 결제 구매 송금 탈퇴
    حذف دفع شراء تأكيد
    हटाएं भुगतान खरीदें
    xóa thanh-toán hapus bayar beli
"""
# Pages have these names as well (a page to write a message on), so they count where a script calls them, not a link.
_PERHAPS = """
    buy order send submit post like follow subscribe add set update save create reset accept reject decline enable
    disable install archive block ban mark toggle edit write book reserve claim redeem donate invite share grant
    bestellen senden absenden speichern commander envoyer enviar invia inviare verzenden bestellen wyślij отправить
    заказать 送信 发送 提交 下单 보내기 주문
"""
_SEARCHES = """
    q query s search k keyword keywords term terms text find filter lookup suggest autocomplete typeahead phrase
    suche suchen recherche rechercher buscar busca cerca ricerca zoeken szukaj sök søk ara поиск 検索 搜索 검색 بحث
    _search _msearch queries
"""
SEARCHES = frozenset(_SEARCHES.split())
_VERBS = frozenset({"action", "do", "op", "cmd", "command", "method", "task", "act", "operation", "event"})
_METHODS = frozenset({"post", "put", "patch", "delete"})  # some servers take the method from a field of this name

DEEDS = frozenset(_DEEDS.casefold().split())
PERHAPS = frozenset(_PERHAPS.casefold().split())
_WORDS = re.compile(r"[^\W_]+(?:-[^\W_]+)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
LONGEST_NAME = 3  # words: "Delete this item" is what a button says, "How to delete an account" is a title


def words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"[^\W_]+", _HUMP.sub(" ", text))]


def deed_in_address(url: str, *, by_script: bool) -> str:
    """The word by which an address says that it does something; empty: it does not say so."""
    known = DEEDS | PERHAPS if by_script else DEEDS
    parts = urlsplit(url)
    said = [re.sub(r"\.\w{1,5}$", "", unquote(segment)) for segment in parts.path.split("/") if segment]
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key.casefold() == "_method" and value.casefold() in _METHODS:
            return value.casefold()
        said += [value] if key.casefold() in _VERBS else [key] if not value or value.casefold() in _YES else []
    for one in said:
        inside = words(one)
        if len(inside) <= 2 and (found := [word for word in (*inside, one.casefold()) if word in known]):
            return found[0]
    return ""


_YES = frozenset({"1", "true", "yes", "on"})


def deed_in_name(name: str) -> str:
    """The same for what a control is called."""
    said = words(name)
    if not 0 < len(said) <= LONGEST_NAME and not (len(name) <= 12 and not name.isascii()):
        return ""
    return next((word for word in (*said, "-".join(said)) if word in DEEDS), "") or next(
        (deed for deed in DEEDS if not deed.isascii() and len(deed) > 1 and len(said) <= 1 and deed in name.casefold()),
        "",
    )  # languages that write without spaces


def looks_like_search(path: str, names: list[str]) -> bool:
    """Whether a form's address or all of its filled fields say that it is a search."""
    last = words(path.rstrip("/").rpartition("/")[2]) or [""]
    return any(word in SEARCHES for word in last) or (bool(names) and all(_search_name(name) for name in names))


def _search_name(name: str) -> bool:
    return name.casefold() in SEARCHES or any(word in SEARCHES and len(word) > 1 for word in words(name))
