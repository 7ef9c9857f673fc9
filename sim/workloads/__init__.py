"""Synthetic streams shaped like the data sets of the papers, of any length and rate.

>>> from penstock.sim.workloads import City
>>> city = City(seconds=5, order_rate=10, gps_rate=100, vehicles=300)
>>> sorted(city.tables())
['gps', 'orders']

:class:`City` is rides and vehicles in a city, :class:`Backbone` packets at two points of a
backbone, :class:`Attack` packets at two sites under attack, :class:`Calls` calls and subscribers;
:class:`Ads` and :class:`Bids` are streams to group, those of YSB and NB7.
``python -m penstock.sim.workloads --help`` writes them to files.
"""

from __future__ import annotations

from .ads import Ads
from .attack import Attack
from .backbone import Backbone
from .base import Workload
from .bids import Bids
from .calls import Calls
from .city import City

__all__ = ["Ads", "Attack", "Backbone", "Bids", "Calls", "City", "Workload"]
