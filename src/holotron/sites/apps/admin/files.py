"""Files: folders, moving and deleting several at once, renaming, copying as far as the quota allows."""

from __future__ import annotations

from holotron.sites.apps.admin.accounts import chosen, order
from holotron.sites.apps.admin.app import app, note
from holotron.sites.apps.admin.data import QUOTA
from holotron.sites.http import HttpResponse
from holotron.sites.state import Row
from holotron.sites.web import NotFound, Visit

SORTS = ("name", "size", "day")
TOP = 0  # the folder that holds the others


def megabytes(kilobytes: int) -> str:
    return f"{kilobytes / 1024:,.1f} MB"


def used(visit: Visit) -> int:
    total: int = visit.state.value("select coalesce(sum(size), 0) from files")
    return total


def paths(visit: Visit) -> list[tuple[int, str]]:
    """Every folder with the way to it."""
    rows = visit.state.all("select f.*, p.name inside from folders f left join folders p on p.id = f.parent")
    named = [(row["id"], f"{row['inside']} / {row['name']}" if row["inside"] else row["name"]) for row in rows]
    return sorted(named, key=lambda pair: pair[1])


def _folder(visit: Visit, id: int) -> Row:
    if id == TOP:
        return {"id": TOP, "parent": None, "name": visit.t("all_files")}
    return visit.state.get("select * from folders where id = ?", id)


def _file(visit: Visit, id: int) -> Row:
    return visit.state.get(
        "select f.*, u.name owner_name from files f left join users u on u.id = f.owner where f.id = ?", id
    )


def _taken(visit: Visit, folder: int, name: str) -> bool:
    return visit.state.one("select * from files where folder = ? and lower(name) = lower(?)", folder, name) is not None


@app.get("/files")
def files(visit: Visit) -> HttpResponse:
    visit.need_user()
    return _folder_page(visit, _folder(visit, visit.number("folder", TOP)))


def _folder_page(visit: Visit, folder: Row) -> HttpResponse:
    sort, way = order(visit, SORTS)
    found = visit.state.all(
        "select f.*, u.name owner_name from files f left join users u on u.id = f.owner where folder = ? "
        f"order by f.{sort} {way}, f.id",
        folder["id"],
    )
    inner = visit.state.all("select * from folders where parent = ? order by name", folder["id"])
    parent = _folder(visit, folder["parent"]) if folder["parent"] else None
    return visit.page(
        "files.html", folder=folder, parent=parent, folders=inner, files=found, targets=paths(visit), sort=sort,
        way=way, sorts=SORTS, size=megabytes, used=used(visit), quota=QUOTA * 1024,
    )  # fmt: skip


@app.post("/files/folder")
def add_folder(visit: Visit) -> HttpResponse:
    visit.need_user()
    parent = _folder(visit, visit.number("folder", TOP))
    visit.require("folder_name")
    name = visit.text("folder_name")
    if visit.state.one("select * from folders where parent = ? and lower(name) = lower(?)", parent["id"], name):
        visit.errors["folder_name"] = visit.t("name_taken")
    if parent["parent"]:
        raise NotFound("folders are two deep")
    if visit.errors:
        return _folder_page(visit, parent)
    visit.state.add("folders", parent=parent["id"], name=name)
    return visit.redirect(f"/files?folder={parent['id']}")


@app.post("/files/folder/<id>/delete")
def delete_folder(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    folder = _folder(visit, id)
    full = visit.state.one("select 1 from files where folder = ? union select 1 from folders where parent = ?", id, id)
    if full or id == TOP:
        visit.flash(visit.t("not_empty"), "bad")
        return visit.redirect(f"/files?folder={id}")
    visit.state.run("delete from folders where id = ?", id)
    return visit.redirect(f"/files?folder={folder['parent']}")


@app.get("/files/chosen")
def act(visit: Visit) -> HttpResponse:
    """What is to happen to the files that are ticked; deleting asks first."""
    visit.need_user()
    back = f"/files?folder={visit.number('folder', TOP)}"
    if not chosen(visit):
        visit.flash(visit.t("nothing_chosen"), "bad")
        return visit.redirect(back)
    return visit.page("delete.html", files=[_file(visit, id) for id in chosen(visit)], back=back)


@app.post("/files/move")
def move(visit: Visit) -> HttpResponse:
    visit.need_user()
    folder, target = _folder(visit, visit.number("folder", TOP)), _folder(visit, visit.number("to", TOP))
    if not chosen(visit) or target["id"] == TOP:
        visit.flash(visit.t("nothing_chosen"), "bad")
        return visit.redirect(f"/files?folder={folder['id']}")
    for id in chosen(visit):
        file = _file(visit, id)
        if _taken(visit, target["id"], file["name"]):
            visit.flash(f"{file['name']}: {visit.t('name_taken')}", "bad")
            continue
        visit.state.run("update files set folder = ? where id = ?", target["id"], id)
        note(visit, "file_moved", file["name"])
    return visit.redirect(f"/files?folder={folder['id']}")


@app.post("/files/delete")
def delete(visit: Visit) -> HttpResponse:
    visit.need_user()
    for id in chosen(visit):
        note(visit, "file_deleted", _file(visit, id)["name"])
        visit.state.run("delete from files where id = ?", id)
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/files?folder={visit.number('folder', TOP)}")


@app.get("/file/<id>")
def file(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    return _file_page(visit, _file(visit, id))


def _file_page(visit: Visit, file: Row) -> HttpResponse:
    return visit.page("file.html", file=file, folder=_folder(visit, file["folder"]), targets=paths(visit),
                      size=megabytes, used=used(visit), quota=QUOTA * 1024)  # fmt: skip


@app.post("/file/<id>/rename")
def rename(visit: Visit, id: int) -> HttpResponse:
    visit.need_user()
    found, name = _file(visit, id), visit.text("name")
    visit.require("name")
    ending = found["name"].rpartition(".")[2]
    if not visit.errors and not name.endswith(f".{ending}"):
        visit.errors["name"] = visit.t("keep_ending", ending=ending)
    elif name != found["name"] and _taken(visit, found["folder"], name):
        visit.errors["name"] = visit.t("name_taken")
    if visit.errors:
        return _file_page(visit, found)
    visit.state.run("update files set name = ? where id = ?", name, id)
    visit.flash(visit.t("saved"))
    return visit.redirect(f"/file/{id}")


@app.post("/file/<id>/copy")
def copy(visit: Visit, id: int) -> HttpResponse:
    me, found, target = visit.need_user(), _file(visit, id), _folder(visit, visit.number("to", TOP))
    if target["id"] == TOP:
        visit.flash(visit.t("nothing_chosen"), "bad")
    elif used(visit) + found["size"] > QUOTA * 1024:
        visit.flash(visit.t("no_space"), "bad")
    elif _taken(visit, target["id"], found["name"]):
        visit.flash(visit.t("name_taken"), "bad")
    else:
        visit.state.add("files", folder=target["id"], name=found["name"], size=found["size"], owner=me["id"],
                        day=visit.episode.variation.today.isoformat())  # fmt: skip
        visit.flash(visit.t("saved"))
    return visit.redirect(f"/file/{id}")
