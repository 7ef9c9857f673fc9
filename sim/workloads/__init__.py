"""Synthetic streams shaped like the data sets of the papers, of any length and rate.

>>> from penstock.sim.workloads import City
>>> city = City(seconds=5, order_rate=10, gps_rate=100, vehicles=300)
>>> sorted(city.tables())
['gps', 'orders']

:class:`City` is rides and vehicles in a city, :class:`Backbone` packets at two points of a
backbone, :class:`Attack` packets at two sites under attack, :class:`Calls` calls and subscribers;
:class:`YSB`, :class:`CM`, :class:`NB7`, :class:`NB8`, :class:`NB11` and :class:`RO` are the Slash
paper's benchmarks; :class:`Yahoo`, :class:`Q7`, :class:`Q8` and :class:`Q11` those of YSB and
NEXMark as their owners define them.
``python -m penstock.sim.workloads --help`` writes them to files.
"""

from __future__ import annotations

from .attack import Attack
from .backbone import Backbone
from .call_records import Calls
from .city import City
from .cm import CM
from .nb7 import NB7
from .nb_joins import NB8, NB11
from .nexmark import Q7, Q8, Q11
from .ro import RO
from .workload import Workload
from .yahoo import Yahoo
from .ysb import YSB

__all__ = [
    "CM",
    "NB7",
    "NB8",
    "NB11",
    "Q7",
    "Q8",
    "Q11",
    "RO",
    "YSB",
    "Attack",
    "Backbone",
    "Calls",
    "City",
    "Workload",
    "Yahoo",
]
