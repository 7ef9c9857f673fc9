"""Windowed stream joins on arbitrary predicates: from SQL to FPGA, simulation and CPU.

Examples
--------
The examples of the calls use these tables and queries:

>>> import penstock, pyarrow as pa
>>> orders = pa.table({"id": [1, 2], "t": [10, 50], "x": [0, 9]})
>>> gps = pa.table({"cab": [7, 8], "t": [12, 90], "x": [2, 9]})
>>> near = '''SELECT id, cab FROM orders o JOIN gps g
...     ON abs(o.x - g.x) < 5 AND g.t BETWEEN o.t - 5 AND o.t + 5'''
>>> counts = "SELECT t, count(*) AS n FROM orders o GROUP BY t"
>>> tables, time = {"orders": orders, "gps": gps}, {"o": "t", "g": "t"}
>>> schemas = {name: table.schema for name, table in tables.items()}
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from .errors import PenstockError

if TYPE_CHECKING:
    from . import workers
    from .api import (
        Checkpoint,
        Explanation,
        Flow,
        Pruning,
        Running,
        RunningQuery,
        explain,
        relation,
        sql,
        stream,
    )
    from .user_functions import udf

    __version__: str

__all__ = [
    "Checkpoint",
    "Explanation",
    "Flow",
    "PenstockError",
    "Pruning",
    "Running",
    "RunningQuery",
    "__version__",
    "explain",
    "relation",
    "sql",
    "stream",
    "udf",
    "workers",
]


# What is logged is for programs that ask for it, and for `penstock --verbose`.
logging.getLogger("penstock").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    # The runtime loads kernels and Arrow; code that only names an error need not wait for it.
    if name == "udf":
        from .user_functions import udf

        return udf
    if name == "workers":
        return import_module(".workers", __name__)
    if name == "__version__":
        from importlib.metadata import version

        return version("penstock")
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
