"""Every interleaving of a channel's state machines, with every delay of memory; and mutants."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from penstock.host.channel import consumer as consumer_module
from penstock.host.channel import producer as producer_module
from tests.host.channel import serving as serving_module
from tests.host.channel import sim as sim_module
from tests.host.channel.model import ChannelModel
from tests.host.channel.ring_model import RingModel
from tests.kit.effort import effort
from tests.kit.explorer import Explored, ViolationError, explore
from tests.kit.mutating import mutated

Show = Callable[[str, Explored], None]

WORD = 1 << 64


def numbered(count: int, size: int = 2) -> list[bytes]:
    """Messages that differ in every byte."""
    return [bytes(range(size * number + 1, size * number + 1 + size)) for number in range(count)]


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("wraps", ["at once", "never"])
def test_messages_arrive_whatever_the_order_of_writes(slots: int, wraps: str, show_states: Show):
    # c + 1 is the smallest modulus that tells a lap from the one before.
    modulus = slots + 1 if wraps == "at once" else WORD
    model = ChannelModel(
        slots, numbered(2 * slots + 2), modulus=modulus, grain_bytes=effort(1, 1 + slots // 3)
    )
    show_states(f"channel, c = {slots}, wraps {wraps}", explore(model, model.first))


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_either_side_may_die(slots: int, show_states: Show):
    model = ChannelModel(
        slots, numbered(2 * slots + 2), modulus=slots + 1, deaths=True, grain_bytes=2
    )
    show_states(f"channel, c = {slots}, deaths", explore(model, model.first))


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_large_messages_are_cut_and_joined(slots: int, show_states: Show):
    messages = [size * bytes([number + 1]) for number, size in enumerate((5, 0, 2, 3, 8))]
    model = ChannelModel(slots, messages, modulus=WORD, grain_bytes=2)
    show_states(f"channel, c = {slots}, cut messages", explore(model, model.first))


def test_credits_that_are_given_for_two_slots_at_once(show_states: Show):
    # With up to 3 slots each credit is given by itself.
    model = ChannelModel(4, numbered(effort(10, 5)), modulus=5, grain_bytes=2)
    show_states("channel, c = 4", explore(model, model.first))


@pytest.mark.parametrize(
    ("processes", "slots", "messages", "delays"),
    [
        (2, 1, 2, True),
        (2, 2, 3, False),
        (3, 1, 2, False),
        pytest.param(4, 1, 2, False, marks=pytest.mark.slow),
        pytest.param(3, 1, 2, True, marks=pytest.mark.slow),
    ],
)
def test_a_ring_of_processes_comes_to_an_end(
    processes: int, slots: int, messages: int, delays: bool, show_states: Show
):
    model = RingModel(processes, slots, messages, delays=delays)
    name = f"ring of {processes}, c = {slots}" + (", delays" if delays else "")
    show_states(name, explore(model, model.first))


#: Mistakes: the module, what is replaced in it, and what the checker must say.
MUTANTS = {
    "footer before payload": (
        producer_module,
        [
            (
                "            memory.write(slot, at, part)\n            at += len(part)\n",
                "            at += len(part)\n",
            ),
            (
                "        self._slot = slot\n",
                "        at = 0\n        for part in parts:\n"
                "            memory.write(slot, at, part)\n            at += len(part)\n"
                "        self._slot = slot\n",
            ),
        ],
        "I[24]",
    ),
    "credit before reading": (
        consumer_module,
        [
            (
                "            if content is None:\n",
                "            if content is None:\n                self._finish(sequence)\n",
            ),
            ("        if message.is_copy:\n", "        if True:\n"),
        ],
        "I3",
    ),
    "unread slot reused": (
        producer_module,
        [("known < self.slots or self._in_flight() < self.slots", "known <= self.slots")],
        "I[134]",
    ),
    "sequence number not released": (
        sim_module,
        [('in ("sequence", "credit")', 'in ("credit",)')],
        "I[24]|MalformedError",
    ),
    "any other sequence number taken": (
        consumer_module,
        [("            if number_found != sequence:\n", "            if not number_found:\n")],
        "I2|Malformed",
    ),
    "cut not marked": (
        producer_module,
        [
            (
                "self._put(parts, self._kind, MORE if unsent else 0)",
                "self._put(parts, self._kind, 0)",
            )
        ],
        "I2",
    ),
    "several slots without credits": (
        sim_module,
        [("self.processed() < self.slots", "self.processed() <= self.slots")],
        "I[134]|Malformed",
    ),
    "several slots credited one by one ahead": (
        sim_module,
        [("            self.give(sequence)\n", "            self.give(sequence + 1)\n")],
        "I[134]|Malformed",
    ),
    "several slots numbered as one": (
        producer_module,
        [("        self._sent += count\n", "        self._sent += 1\n")],
        "I[1234]|Malformed",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_found(name: str):
    module, changes, problem = MUTANTS[name]
    mutant = mutated(module, *changes)
    classes: dict[ModuleType, tuple[str, str]] = {
        producer_module: ("producer", "Producer"),
        consumer_module: ("consumer", "Consumer"),
        sim_module: ("memory", "SimChannel"),
    }
    argument, class_name = classes[module]
    machine = {argument: getattr(mutant, class_name)}
    slots, messages = 2, [b"cut", *numbered(3), b"longer"]
    if name.startswith("several"):
        # The first slot of a message is filled by itself.
        slots, messages = 3, [b"longer", b"longest"]
    model = ChannelModel(slots, messages, modulus=WORD, **machine)
    with pytest.raises(ViolationError, match=problem):
        explore(model, model.first, most_states=20_000)


def test_no_service_while_waiting_is_a_deadlock():
    mutant = mutated(
        serving_module,
        ("return Advance.SERVED if serve() else Advance.WAITS", "return Advance.WAITS"),
    )
    model = RingModel(3, 1, 3, delays=False, step=mutant.advance)
    with pytest.raises(ViolationError, match="deadlock"):
        explore(model, model.first)


def test_a_mutant_that_is_none_is_refused():
    with pytest.raises(ValueError, match="has 0 times"):
        mutated(producer_module, ("no such text", ""))
