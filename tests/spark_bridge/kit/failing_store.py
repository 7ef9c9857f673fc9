"""A store of a streaming join in which tasks fail."""

from __future__ import annotations

import re

from penstock.spark_bridge.streaming.store import Store


class FailingStore(Store):
    """A store in which the first attempt of each task of every other batch fails.

    It does so when all is written that a task writes, and the driver has only to be told.
    """

    def report(self, part, written):
        text = super().report(part, written)
        batch = int(re.search(r'"name": "(\d+)-', text)[1])
        mark = f"failed/{batch}-{part}"
        if batch % 2 and self.files.size(mark) is None:
            self.files.put(mark, b"struck")
            raise RuntimeError(f"{mark}: struck")
        return text
