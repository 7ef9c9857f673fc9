"""Settings of a running join beside its query."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock import arguments

from ...execute.running import Running


@dataclass(frozen=True, kw_only=True)
class Flow:
    """How rows flow through a join; no setting changes which rows come out.

    Parameters
    ----------
    latency_s : float
        Latency target in seconds. 0, the default, joins each batch before ``push`` returns.
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    memory_bytes : int, optional
        Main memory that windows, waiting rows and results may take; ``push`` waits beyond it.
    push_timeout_s : float
        Seconds that ``push`` waits for room.
    running : Running
        Settings of the lanes.

    Examples
    --------
    >>> flow = penstock.Flow(latency_s=0.05, memory_bytes=1 << 30)
    >>> stream = penstock.stream(near, schemas, time=time, flow=flow)
    >>> stream.push("orders", orders)
    >>> stream.push("gps", gps)
    >>> stream.close().num_rows
    1
    """

    latency_s: float = 0.0
    idle_s: float | None = None
    memory_bytes: int | None = None
    push_timeout_s: float = 60.0
    running: Running = field(default_factory=Running)

    def __post_init__(self) -> None:
        arguments.seconds("latency_s", self.latency_s)
        arguments.seconds("push_timeout_s", self.push_timeout_s, above=0)
        if self.idle_s is not None:
            arguments.seconds("idle_s", self.idle_s, above=0)
        if self.memory_bytes is not None:
            arguments.number("memory_bytes", self.memory_bytes, above=0)
        arguments.instance(Running, "a penstock.Running")("running", self.running)
