"""What the Slash paper prints of its channel (section 8, figures 10a and 10b).

Two nodes of Xeon Gold 5115 at 2.4 GHz, ConnectX-4 at 100 Gb/s, two threads, c = 8. The text gives
these numbers; the rest of the curves is drawn without any.
"""

from __future__ import annotations

#: GB/s of the link by ``ib_write_bw``, of Slash from 32 KiB on, and of UpPar.
LINK_GBS, SLASH_GBS, UPPAR_GBS = 11.8, 11.2, 5.9
#: Bytes of a buffer from which Slash has nearly all of the link.
FULL_FROM_BYTES = 32 << 10
#: Seconds that a buffer takes, at most, by its bytes.
LATENCY_BELOW_S = {128 << 10: 100e-6, 1 << 20: 1e-3}
#: By how much other numbers of credits than 8 are slower, at most.
LOSS_BY_CREDITS = {4: 0.03, 16: 0.03, 64: 0.10}
