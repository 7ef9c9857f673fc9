"""What texts of the command line mean."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.cli.values import params


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500),
        ("-7", -7),
        ("0.5", Decimal("0.5")),
        ("2.0", Decimal("2.0")),
        ("1e-3", Decimal("0.001")),
        ("1E3", Decimal("1E3")),
        ("north", "north"),
        ("nan", "nan"),
        ("infinity", "infinity"),
    ],
)
def test_parameters_are_numbers_where_they_look_like_numbers(text: str, value: object) -> None:
    found = params([f"limit={text}"])["limit"]
    assert found == value
    assert type(found) is type(value)
