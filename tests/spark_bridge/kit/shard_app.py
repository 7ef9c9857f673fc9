"""Joins a shard as a new Python worker does; prints what it compiled and imported, as JSON."""

from __future__ import annotations

import json
import sys

import pyspark.worker  # noqa: F401 - what each worker has
from numba.core import dispatcher


def main() -> None:
    before, compiled = set(sys.modules), []
    compile_one = dispatcher._FunctionCompiler.compile

    def counted(self, *given):
        compiled.append(self.py_func.__qualname__)
        return compile_one(self, *given)

    dispatcher._FunctionCompiler.compile = counted

    from pyspark.serializers import CloudPickleSerializer

    join, batches = CloudPickleSerializer().loads(sys.stdin.buffer.read())
    rows = sum(batch.num_rows for batch in join.run(batches))
    modules = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
    sys.stdout.write(json.dumps({"compiled": compiled, "modules": modules, "rows": rows}))


if __name__ == "__main__":
    main()
