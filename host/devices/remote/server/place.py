"""Fair use of the interpreter: a peer is served one connection at a time, and pauses when busy.

The interpreter runs one thread at a time and knows no clients: without this, other peers' threads
would wait for many turns behind those of a peer that floods the server.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from weakref import WeakValueDictionary

from ....channel import spin_seconds
from ....wire.frames import Frames

#: Seconds after which a place's use counts a third.
FADING_S = 0.05
#: Seconds of others' recent use from which on a busier place pauses.
LEAST_LOAD_S = 100e-6
#: Seconds of a pause.
LEAST_PAUSE_S, MOST_PAUSE_S = 200e-6, 5e-3


class _Line:
    """A lock that goes to the thread with the longest wait.

    A thread that releases and retakes one of Python's own locks would get it again at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self) -> None:
        with self._lock:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def release(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


class PeerPlaces:
    """The places of all peers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: WeakValueDictionary[str, PeerPlace] = WeakValueDictionary()

    def place(self, peer: str) -> PeerPlace:
        """The place of a peer."""
        with self._lock:
            return self._places.setdefault(peer, PeerPlace(self))

    def most_of_others(self, place: PeerPlace, now: float) -> float:
        """Seconds of recent use of the busiest other place."""
        with self._lock:
            other_places = [one for one in self._places.values() if one is not place]
        return max((one.load(now) for one in other_places), default=0.0)

    def spin_s(self) -> float:
        """Seconds that a thread may spin: none where peers and this server outnumber cores."""
        with self._lock:
            peers = len(self._places)
        return spin_seconds(1 + peers)


class PeerPlace:
    """Serves one peer, one connection at a time; a thread that waits leaves its place.

    So others compete with one thread of a peer, however many connections and sessions it has. The
    busiest peer competes half of the time only: while others use the interpreter too, it pauses
    for as long as it has worked.
    """

    def __init__(self, places: PeerPlaces) -> None:
        self._places = places
        self._line = _Line()
        self._entered = 0.0
        # Fading seconds of recent use, and their moment; seconds of use since the latest pause.
        self._load, self._until = 0.0, 0.0
        self._since_pause = 0.0

    def spin_s(self) -> float:
        """Seconds that a thread which waits here may spin."""
        return self._places.spin_s()

    def load(self, now: float) -> float:
        """Seconds of recent use; a second :data:`FADING_S` ago counts a third."""
        return self._load * math.exp((self._until - now) / FADING_S)

    @contextmanager
    def serving(self, frames: Frames) -> Iterator[None]:
        """Serve a connection here; while it waits for the peer, the peer's others have turns."""
        with self.entered():
            frames.waiting = self.left
            try:
                yield
            finally:
                frames.waiting = nullcontext

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the only thread that serves the peer."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Let other threads serve the peer while this one waits for something."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def _enter(self) -> None:
        self._line.acquire()
        now = self._entered = time.perf_counter()
        if self._since_pause < LEAST_PAUSE_S:
            return
        pause, self._since_pause = self._since_pause, 0.0
        busiest = self._places.most_of_others(self, now)
        if LEAST_LOAD_S < busiest < self.load(now):
            time.sleep(min(pause, MOST_PAUSE_S))
            self._entered = time.perf_counter()

    def _leave(self) -> None:
        now = time.perf_counter()
        used = now - self._entered
        self._load, self._until = self.load(now) + used, now
        self._since_pause += used
        self._line.release()
