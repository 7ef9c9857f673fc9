"""Look again at a channel over TCP after its other side died with messages on their way to here.

Run as a file. The other side leaves what was sent to it unread, so that its end is a reset.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from penstock.host.channel import MessageKind
from penstock.host.channel.doorbell import ProcessGoneError
from tests.host.channel.peer import PATIENCE_S
from tests.host.channel.ucx_subject import UcxPeer, UcxSubject


def main() -> None:
    peer = UcxPeer("tcp,self")
    process = peer.process
    subject = UcxSubject(peer, "pour", 16, 256)
    for _ in range(16):  # credits for half of the slots are given while nobody looks at them
        subject.until(lambda: subject.consumer.has_arrived)
        message = subject.consumer.receive()
        assert message is not None
        subject.consumer.done(message)
    if peer.network.arm():
        assert select.select([peer.network.fileno()], [], [], PATIENCE_S)[0], "nothing has come"
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    subject.producer.send(MessageKind.ROWS, b"unread")
    process.kill()
    process.wait()
    try:
        subject.until(lambda: False)
    except ProcessGoneError as gone:
        sys.stdout.write(str(gone))


if __name__ == "__main__":
    main()
