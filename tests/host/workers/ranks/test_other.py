"""How a rank sees that another one is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from penstock.host.channel.link_maker import Whereabouts
from penstock.host.workers.peers import PeerChannels
from penstock.host.workers.ranks.other import OtherRank, named


@dataclass
class Ring:
    """What is looked at of a producer."""

    credits: int = 8
    slots: int = 8


@dataclass
class Way:
    """What is looked at of a link."""

    has_ended: bool = False


def seen(link: Way, ring: Ring) -> OtherRank:
    channels = PeerChannels(cast("Any", ring), cast("Any", None))
    return OtherRank("process 7", cast("Any", link), channels, _moved=0.0)


def test_a_process_that_ends_is_lost() -> None:
    link = Way()
    rank = seen(link, Ring())
    assert rank.how_it_is_lost(1.0, 5.0) == ""
    link.has_ended = True
    assert rank.how_it_is_lost(1.0, 5.0) == "(process 7) has ended"


def test_whoever_takes_nothing_for_the_lease_is_lost() -> None:
    ring = Ring()
    rank = seen(Way(), ring)
    assert rank.how_it_is_lost(100.0, 5.0) == "", "there was nothing to take"
    ring.credits = 3
    assert rank.how_it_is_lost(101.0, 5.0) == ""
    ring.credits = 4
    assert rank.how_it_is_lost(106.0, 5.0) == "", "it has taken something"
    assert rank.how_it_is_lost(110.0, 5.0) == ""
    assert "has taken nothing for 6 s, longer than its lease of 5 s" in rank.how_it_is_lost(112, 5)


def test_a_process_elsewhere_is_named_with_its_host() -> None:
    here = Whereabouts("a", "left", 1)
    assert named(Whereabouts("a", "left", 2), here) == "process 2"
    assert named(Whereabouts("b", "right", 2), here) == "process 2 on right"
