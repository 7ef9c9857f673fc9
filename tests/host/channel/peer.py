"""The other side of channels in shared memory: a process that runs programs until it is closed.

Run as a file, with a socket's descriptor. Each request is the name of a program, with the
descriptors of the channel to read, the channel to write, the asker's doorbell and its pidfd.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from penstock.host.channel import Doorbell, Ringer, shm
from tests.host.channel.programs import PROGRAMS

#: Seconds without any progress of the other side after which a test has failed.
PATIENCE_S = 20.0


def main(file: int) -> None:
    link = socket.socket(fileno=file)
    bell = Doorbell.create()
    socket.send_fds(link, [b"ready"], list(bell.files))
    while True:
        request, files, _, _ = socket.recv_fds(link, 1 << 12, 5)
        if not request:
            return
        options = json.loads(request)
        to_read, to_write, event, page, asker = files
        ringer = Ringer((event, page))
        bell.watch(asker, "the test")
        consumer = shm.attach_consumer(to_read, ringer.ring)
        producer = shm.attach_producer(to_write, ringer.ring)
        for open_file in (to_read, to_write, page):
            os.close(open_file)
        for ready in PROGRAMS[options["program"]](consumer, producer):
            if not bell.wait(ready, PATIENCE_S, spin_s=options["spin_s"]):
                raise TimeoutError(f"{options['program']} waits for {PATIENCE_S} s")
        bell.unwatch(asker)
        os.close(asker)
        ringer.close()
        link.send(b"done")


if __name__ == "__main__":
    main(int(sys.argv[1]))
