"""The other side of channels through UCX: a process that runs one program.

Run as a file, with transports, slots, bytes of a slot, checksums (0 or 1), seconds of spinning and
the program's name. Offers are exchanged as lines of hexadecimal digits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from penstock.host.channel import Doorbell
from penstock.host.channel.ucx import Network, UcxLink
from tests.host.channel.peer import PATIENCE_S
from tests.host.channel.programs import PROGRAMS


def main(transports: str) -> None:
    bell = Doorbell.create()
    bell.watch(os.pidfd_open(os.getppid()), "the test")
    network = Network(bell, transports=transports)
    for line in sys.stdin:
        program, slots, slot_bytes, crc, spin_s, offer = line.split()
        link = UcxLink(
            network,
            bell,
            "the test",
            slots=int(slots),
            slot_bytes=int(slot_bytes),
            crc=crc == "True",
        )
        _say(link.offer().hex())
        producer, consumer = link.connect(bytes.fromhex(offer))
        for ready in PROGRAMS[program](consumer, producer):
            if not bell.wait(ready, PATIENCE_S, spin_s=float(spin_s)):
                raise TimeoutError(f"{program} waits for {PATIENCE_S} s")
        link.flush(PATIENCE_S)
        _say("done")
        link.close()
    network.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
