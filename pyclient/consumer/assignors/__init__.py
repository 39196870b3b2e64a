"""Assignors: what the leader of a classic group shares the partitions by.

A visible table, by the names of partition.assignment.strategy.
"""

from __future__ import annotations

from pyclient.consumer.assignors.range import RANGE
from pyclient.consumer.assignors.roundrobin import ROUNDROBIN
from pyclient.consumer.assignors.spec import Assignor
from pyclient.consumer.assignors.sticky import COOPERATIVE_STICKY, STICKY

ASSIGNORS: dict[str, Assignor] = {each.name: each for each in (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY)}
