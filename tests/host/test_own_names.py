"""Names by which Penstock knows its own files, and all places of the product that remove any."""

from __future__ import annotations

import ast
from collections import Counter
from uuid import uuid4

import pytest

from penstock.host.relation.folder.records import RELATION_NAMES
from penstock.host.store.atomic import atomic
from penstock.host.store.own_names import UUID, OwnNames
from tests.kit.foreign import ForeignFiles
from tests.test_packaging import MODULES

#: Calls that remove something, by module: how many, and why they remove nothing of a user's.
REMOVALS = {
    "penstock.host.relation.folder.build": (1, "the new folder of a build that has failed"),
    "penstock.host.relation.folder.sorting": (1, "a run in a temporary folder of its own"),
    "penstock.host.store.atomic": (1, "the name that was made for this write"),
    "penstock.host.store.file_store": (1, "names of OwnNames"),
    "penstock.host.store.own_names": (5, "names of OwnNames"),
    "penstock.host.wire.listening": (1, "the server's own socket, by its inode"),
    "penstock.host.wire.address": (1, "a socket that the user names and nobody listens on"),
    "penstock.private_folder": (2, "the name made for a write; forms of a cache, by pattern"),
    "penstock.sim.local_spark.board": (2, "a socket in a temporary folder of its own"),
    "penstock.sim.local_spark.cluster_record": (1, "the cluster's own record"),
    "penstock.spark_bridge.streaming.delta": (1, "names of OwnNames"),
}
_REMOVING = {"unlink", "rmtree", "rmdir", "removedirs", "delete_file", "delete_dir", "rmdirs"}


def removals(source: str) -> int:
    """Calls that remove files or folders."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    return sum(n == "os.remove" or n.rpartition(".")[2] in _REMOVING for n in names)


def test_all_places_that_remove_files_are_known() -> None:
    """One more must say why it removes nothing that is not Penstock's."""
    found = Counter({name: removals(file.read_text()) for name, file in MODULES.items()})
    assert dict(+found) == {name: count for name, (count, _) in REMOVALS.items()}


def test_a_removal_is_found() -> None:
    assert removals("import os, shutil\nos.remove('x')\nshutil.rmtree(y)\npath.unlink()") == 3
    assert removals("rows.remove(1)\nfiles.remove(names)") == 0


def test_whole_names(tmp_path) -> None:
    names = OwnNames(r"[0-9]+\.json", f"data/{UUID}")
    for own in ("1.json", f"data/{uuid4().hex}"):
        (tmp_path / "data").mkdir(exist_ok=True)
        with atomic(tmp_path / own) as partial:
            unfinished = partial.relative_to(tmp_path).as_posix()
            partial.touch()
        assert names.has(own)
        assert not names.has_unfinished(own)
        assert names.has_unfinished(unfinished)
        assert not names.has(unfinished)
        assert {own, unfinished} == {name for name in (own, unfinished) if name in names}


@pytest.mark.parametrize("own", [[], ["versions", "data/0.index"]])
def test_what_is_left_of_a_build(tmp_path, own) -> None:
    """Files of the user stay, also with the names of our folders, and links."""
    foreign, place, name = ForeignFiles(), tmp_path / ".r.x.partial", uuid4().hex
    link = place / f"data/{uuid4().hex}.index"
    for file in ("relation.json", f"data/{name}.pages", f".newest.json.{name}.partial"):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).touch()
    if own:
        foreign.put(place, *own)
        (place / "holds").symlink_to("mine.d")
        (place / "versions.d").mkdir()
        link.symlink_to("../mine.d/mine")
    RELATION_NAMES.clear(place)
    left = {path for path in place.rglob("*") if path not in foreign}
    kept = {place / "data", place / "holds", place / "versions.d", link} if own else set()
    assert left == kept
    assert place.exists() is bool(own)
    if own:
        foreign.require_untouched()


@pytest.mark.parametrize(
    "name",
    ["1.json.bak", "a1.json", "1.json\n", "٣.json", "x/1.json", ".1.json.partial", "data/1", ""],
)
def test_other_names(name) -> None:
    names = OwnNames(r"[0-9]+\.json", f"data/{UUID}")
    assert name not in names
    assert f".{name}.{uuid4().hex}.partial" not in names
    assert name not in OwnNames()
