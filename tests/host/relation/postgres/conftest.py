"""Servers of PostgreSQL that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.postgres_server import PostgresServer, served_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that goes on; tests make tables of their own in it."""
    with served_postgres() as server:
        yield server
