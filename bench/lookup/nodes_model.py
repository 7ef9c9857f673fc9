"""The cost model of lookups on several nodes: equation (1)'s network item beside the work of one.

Each node takes 1/n of the stream's rows and owns 1/n of the keys. A row whose key another node owns
is forwarded, unless its key is hot, and is then answered where it arrived. As printed, every row is
forwarded first: (n - 1)/n of them. [r] The text has lost the item itself, w (n - 1)/n C_N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.hot import SHARE
from penstock.host.lookup.model import Shape, UnitCosts, predict
from penstock.host.lookup.zipf import harmonic, top_share


@dataclass(frozen=True)
class NetworkCosts:
    """What a row costs that is forwarded (C_N), its answer included, at both nodes together.

    Parameters
    ----------
    row_s : float
        CPU seconds beside its bytes.
    byte_s : float
        CPU seconds of a byte.
    sent_bytes, answer_bytes : float
        Of the hash that is sent, and of the row that comes back.
    message_s : float
        CPU seconds of a request beside its rows. Rows that are answered together make a request
        to each other node, so many nodes want large batches.
    """

    row_s: float
    byte_s: float
    sent_bytes: float
    answer_bytes: float
    message_s: float = 0.0

    @property
    def forward_s(self) -> float:
        """CPU seconds of a row that is forwarded (C_N)."""
        return self.row_s + self.byte_s * (self.sent_bytes + self.answer_bytes)


@dataclass(frozen=True)
class NodesPrediction:
    """What nodes will do.

    Parameters
    ----------
    nodes : int
    rate : float
        Rows of the stream per second of all nodes, each with a core of its own.
    work_s : float
        CPU seconds of a row: those of its page, cache and join, and of its way.
    hits : float
        Share of rows that a cache answers, here or at the owner.
    hot : float
        Share of rows that are answered where they arrive because their keys are hot.
    forwarded : float
        Share of rows that are forwarded.
    busiest : float
        Rows that the busiest node answers, over the mean; the ring itself adds up to 0.15.
    network_bytes : float
        Bytes between nodes for each row of the stream.
    """

    nodes: int
    rate: float
    work_s: float
    hits: float
    hot: float
    forwarded: float
    busiest: float
    network_bytes: float


def hot_keys(rows: float, exponent: float, nodes: int) -> float:
    """How many keys have more than 1 / (32 nodes) of the rows."""
    if nodes < 2 or not rows:
        return 0.0
    total = harmonic(rows, exponent)
    if not exponent:
        return rows if SHARE * nodes > rows else 0.0
    return float(min(rows, int((SHARE * nodes / total) ** (1 / exponent))))


def forwarded_share(nodes: int, answered: float = 0.0) -> float:
    """The share of rows that are forwarded, if this share of all is answered where it arrives."""
    return (1 - answered) * (nodes - 1) / nodes


def predict_nodes(
    algorithm: Algorithm,
    shape: Shape,
    costs: UnitCosts,
    network: NetworkCosts,
    nodes: int,
    *,
    printed: bool = False,
    entrance: float | None = None,
) -> NodesPrediction:
    """The rate that nodes sustain.

    Parameters
    ----------
    algorithm : Algorithm
    shape : Shape
        The whole relation, and the memory of one node.
    costs : UnitCosts
    network : NetworkCosts
    nodes : int
    printed : bool
        Whether every row goes to its owner first, as in the paper.
    entrance : float, optional
        Most frequent keys whose rows are answered where they arrive, of those in the memory of a
        node: what a stream keeps by itself, before it asks. By default the hot keys.
    """
    if entrance is None:
        entrance = hot_keys(shape.rows, shape.exponent, nodes)
    hot = 0.0 if printed or nodes < 2 else min(entrance, shape.cached)
    present = 1 - shape.absent
    answered = present * top_share(hot, shape.rows, shape.exponent) if hot else 0.0
    # Hot keys are kept by all, the others by their owners: of the pages, each has its part.
    own = replace(
        shape,
        cached=min(shape.rows, hot + nodes * (shape.cached - hot)),
        row_bytes=shape.row_bytes / nodes,
    )
    one = predict(algorithm, own, costs)
    forwarded = forwarded_share(nodes, answered)
    requests = (nodes - 1) / shape.batch if forwarded else 0.0
    work_s = 1 / one.rate + forwarded * network.forward_s + requests * network.message_s
    # The hottest key that only its owner answers, which has it beside an even share of the rest.
    alone = present * (hot + 1) ** -shape.exponent / harmonic(shape.rows, shape.exponent)
    busiest = 1 + alone * (nodes - 1) if hot < shape.rows else 1.0
    return NodesPrediction(
        nodes=nodes,
        rate=nodes / work_s / busiest,
        work_s=work_s,
        hits=one.hits,
        hot=answered,
        forwarded=forwarded,
        busiest=busiest,
        network_bytes=forwarded * (network.sent_bytes + network.answer_bytes),
    )
