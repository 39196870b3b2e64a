"""What to use here instead of settings of other clients that are no settings of this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NUMBERS: Final = "metrics() of a producer or consumer returns the numbers whenever you ask"
_LOG: Final = "the client logs to logging.getLogger('pyclient')"

HINTS: Final[Mapping[str, str]] = {
    "stats.cb": _NUMBERS,
    "statistics.interval.ms": _NUMBERS,
    "error.cb": f"calls raise their errors; {_LOG}, also when no broker can be reached",
    "throttle.cb": "there is no such event: the broker delays its answers, and the client waits for them",
    "logger": f"{_LOG}, which takes handlers and levels",
    "log.cb": f"{_LOG}, which takes handlers and levels",
    "log.level": f"{_LOG}: set the level there",
    "debug": f"{_LOG}: set its level to DEBUG",
    "enable.partition.eof": "at_end() of a consumer returns the partitions that were read to their end",
    "on.delivery": "on_delivery(metadata, error) is an argument of send()",
    "dr.cb": "on_delivery(metadata, error) is an argument of send()",
    "dr.msg.cb": "on_delivery(metadata, error) is an argument of send()",
    "rebalance.cb": "listener=… of Consumer or subscribe() is told of rebalances",
    "on.commit": "commit_async(on_commit=…) is told of a commit",
}
"""By the name with dots: of librdkafka and confluent-kafka."""
