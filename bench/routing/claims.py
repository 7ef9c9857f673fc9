"""The paper's claims of its figures, each held or not by what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.routing.paper import CountRun, JoinRun

#: Runs by query, method and exponent.
Joins = Mapping[str, Mapping[str, Mapping[float, JoinRun]]]
_OTHERS = ("Dynamic", "Bi", "Bi6")


@dataclass(frozen=True)
class Found:
    """What was measured.

    Parameters
    ----------
    full, windowed : Joins
    used : mapping of method to list of int
        Nodes over loaded data, of EQ5.
    plans : mapping of method to mapping of tolerance to float
    counts : mapping of method to mapping of exponent to CountRun
    """

    full: Joins
    windowed: Joins
    used: Mapping[str, list[int]]
    plans: Mapping[str, Mapping[float, float]]
    counts: Mapping[str, Mapping[float, CountRun]]


def claims(found: Found) -> list[tuple[str, bool, str]]:
    """Each claim: its text, whether it is held here, and the numbers."""
    return [(text, *check(found)) for text, check in _CLAIMS]


def _s(joins: Joins, query: str, method: str, exponent: float) -> float:
    return joins[query][method][exponent].seconds


def _exponents(joins: Joins) -> tuple[float, float]:
    """No skew, and the largest up to 1.5."""
    known = sorted(next(iter(joins["EQ5"].values())))
    return known[0], max(z for z in known if z <= 1.5)


def _numbers(**values: float) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _little_skew(found: Found) -> tuple[bool, str]:
    low, _ = _exponents(found.full)
    times = {m: _s(found.full, "EQ5", m, low) for m in ("MNRT", "QMMP", *_OTHERS)}
    ours = max(times["MNRT"], times["QMMP"])
    return ours <= min(times[m] for m in _OTHERS), _numbers(**times)


def _qmmp_slows(found: Found) -> tuple[bool, str]:
    low, high = _exponents(found.full)
    grows = {q: _s(found.full, q, "QMMP", high) / _s(found.full, q, "QMMP", low)
             for q in found.full}  # fmt: skip
    return 1 < grows["EQ5"] < grows["B_NCI"], _numbers(**grows)


def _bi6_challenged(found: Found) -> tuple[bool, str]:
    low, high = _exponents(found.full)
    grows = _s(found.full, "EQ5", "Bi6", high) / _s(found.full, "EQ5", "Bi6", low)
    return grows > 1.5, _numbers(growth=grows)


def _bi_slowest(found: Found) -> tuple[bool, str]:
    low, high = _exponents(found.full)
    shown, held = {}, True
    for query in found.full:
        for z in (low, high):
            bi = _s(found.full, query, "Bi", z)
            best = max(_s(found.full, query, m, z) for m in ("MNRT", "QMMP", "Bi6", "Dynamic"))
            held &= bi >= best
            shown[f"{query}_{z:g}"] = bi / best
    return held, "Bi over the slowest other: " + _numbers(**shown)


def _dynamic_steady(found: Found) -> tuple[bool, str]:
    spread = {}
    for query in found.windowed:
        got = [run.received for run in found.windowed[query]["Dynamic"].values()]
        spread[query] = max(got) / min(got)
    return max(spread.values()) < 1.1, "received, max over min: " + _numbers(**spread)


def _most_nodes(found: Found) -> tuple[bool, str]:
    last = {name: float(own[-1]) for name, own in found.used.items()}
    few = max(last["Bi"], last["Bi6"])
    ours = max(last["MNRT"], last["QMMP"])
    return last["Dynamic"] > ours >= few, _numbers(**last)


def _rebalance(found: Found) -> tuple[bool, str]:
    times = {
        m: float(np.mean([run.rebalance_s for run in found.full["EQ5"][m].values()]))
        for m in ("QMMP", "MNRT", *_OTHERS)
    }
    slowest = times["Dynamic"] == max(times.values())
    return slowest and times["QMMP"] <= times["MNRT"], _numbers(**times)


def _received(found: Found) -> tuple[bool, str]:
    _, high = _exponents(found.windowed)
    got = {f"{q}_{m}": found.windowed[q][m][high].received
           for q in found.windowed for m in ("MNRT", "QMMP", "Dynamic")}  # fmt: skip
    held = all(got[f"{q}_MNRT"] <= got[f"{q}_QMMP"] for q in found.windowed)
    held &= all(got[f"{q}_MNRT"] <= got[f"{q}_Dynamic"] for q in found.windowed)
    return held, _numbers(**got)


def _bi_received(found: Found) -> tuple[bool, str]:
    low, high = _exponents(found.windowed)
    eq = found.windowed["EQ5"]
    bi = [found.windowed[q]["Bi"][high].received / found.windowed[q]["Bi"][low].received
          for q in found.windowed]  # fmt: skip
    grows = eq["Bi6"][high].received / eq["Bi6"][low].received
    few = eq["Bi6"][low].received < eq["Bi"][low].received
    return few and grows > 1.05 and max(bi) < 1.05, _numbers(Bi6=grows, Bi=max(bi))


def _plans(found: Found) -> tuple[bool, str]:
    at = found.plans
    tight, wide = min(at["QMMP"]), max(at["QMMP"])
    held = all(at["QMMP"][t] <= at["MNRT"][t] <= at["Readj"][t] for t in at["QMMP"])
    held &= at["Readj"][tight] >= at["Readj"][wide]
    return held, _numbers(
        QMMP=at["QMMP"][tight], MNRT=at["MNRT"][tight], Readj=at["Readj"][tight],
        Readj_wide=at["Readj"][wide],
    )  # fmt: skip


def _splitting_costs(found: Found) -> tuple[bool, str]:
    z = sorted(found.counts["MNRT"])[len(found.counts["MNRT"]) // 2]
    late = {m: own[z].latency_s for m, own in found.counts.items()}
    held = late["MNRT"] <= min(late["QMMP"], late["PKG"]) and late["PKG"] > late["hash"]
    return held, f"exponent {z:g}, seconds: " + _numbers(**{m.replace("-", "_"): v
                                                            for m, v in late.items()})  # fmt: skip


_CLAIMS: list[tuple[str, Callable[[Found], tuple[bool, str]]]] = [
    ("1: with little skew MNRT and QMMP take less time (3a)", _little_skew),
    ("2: QMMP slows as skew grows, most in 3b", _qmmp_slows),
    ("3: Bi6 is challenged at exponent 1.5", _bi6_challenged),
    ("4: Bi is the slowest", _bi_slowest),
    ("5: Dynamic depends neither on skew nor on the predicate", _dynamic_steady),
    ("6: Dynamic uses most nodes, Bi and Bi6 few", _most_nodes),
    ("7: Dynamic rebalances slowest, QMMP slightly ahead of MNRT", _rebalance),
    ("8: a node of MNRT receives few tuples, of QMMP more", _received),
    ("9: Bi6 receives little at low skew and more as it grows, Bi the same", _bi_received),
    ("10: QMMP plans fastest, then MNRT; Readj slowest, worse when tight", _plans),
    ("11: methods that split more have more latency", _splitting_costs),
]
