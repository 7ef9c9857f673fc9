"""An S3 server of another project, moto's, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from pyarrow import fs

#: Any will do, but there must be some.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
BUCKET = "joins"


@contextmanager
def served_objects() -> Iterator[str]:
    """Options of an S3 URI that lead to a server with an empty bucket."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **CREDENTIALS},
    ) as process:
        try:
            address = None
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                found = re.search(r"http://(127\.0\.0\.1:\d+)", line)
                if found:
                    address = found[1]
                    break
            assert address, "".join(said)
            _drained(process)
            options = f"scheme=http&endpoint_override={address}&region=us-east-1"
            store, _ = fs.FileSystem.from_uri(f"s3://{BUCKET}?{options}&allow_bucket_creation=true")
            store.create_dir(BUCKET)
            yield options
        finally:
            process.kill()


def _drained(process: subprocess.Popen) -> None:
    """Read what a process says, or it would wait for that."""
    Thread(target=process.stderr.read, daemon=True).start()
