"""Classes that installed packages provide: what is not there, and what people are told then."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import penstock
from penstock import providers
from penstock.errors import MissingToolError, UsageError
from penstock.host.channel import Doorbell
from penstock.host.channel.link_maker import LinkMaker, Whereabouts
from penstock.host.relation import server_of
from penstock.host.relation.border import ServerRelation

ADDRESS = "postgresql://user:secret@host/db?table=t&key=k"


def offering(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Let every group have these entry points, and no others."""
    entries = {name: EntryPoint(name, value, "any") for name, value in values.items()}
    monkeypatch.setattr(providers, "providers", lambda group: entries)


def test_an_earlier_installation_lacks_the_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch)
    again = "is of an earlier version, without {}; install it again with pip"
    with pytest.raises(MissingToolError, match=again.format("relations at postgresql://")) as error:
        penstock.relation(ADDRESS)
    assert "secret" not in str(error.value)
    bell = Doorbell.create(is_offered=True)
    maker = LinkMaker(bell, Whereabouts.of_this_process("here"))
    with pytest.raises(MissingToolError, match=again.format("channels between machines")):
        maker.link(Whereabouts("elsewhere", "other", 1), "rank 1")
    maker.close()
    bell.close()


def test_a_package_that_a_class_needs_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, x="no_such_package:X", y="penstock.no_such_module:Y")
    said = "the thing needs the package no_such_package, which is not installed; fetch it"
    with pytest.raises(MissingToolError, match=said):
        providers.load_provider("any", "x", "the thing", "fetch it")
    said = "lacks its module penstock.no_such_module; install penstock again"
    with pytest.raises(MissingToolError, match=said):
        providers.load_provider("any", "y", "the thing", "fetch it")


def test_schemes_of_servers(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for scheme in ("postgresql", "postgres"):
        server = server_of(f"{scheme}://host/db")
        assert server is not None
        assert issubclass(server, ServerRelation)
    for location in (str(tmp_path), "postgresql", "file:///tmp/x", "s3://bucket/x", "other://x/y"):
        assert server_of(location) is None
    with pytest.raises(UsageError, match="other"):
        penstock.relation("other://user:secret@x/y")
