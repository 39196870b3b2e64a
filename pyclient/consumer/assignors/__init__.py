"""Assignors, by which the leader of a classic group assigns partitions.

The table below has them by their names in partition.assignment.strategy.
"""

from __future__ import annotations

from pyclient.consumer.assignors.range import RANGE
from pyclient.consumer.assignors.roundrobin import ROUNDROBIN
from pyclient.consumer.assignors.spec import Assignor
from pyclient.consumer.assignors.sticky import COOPERATIVE_STICKY, STICKY

ASSIGNORS: dict[str, Assignor] = {each.name: each for each in (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY)}
