"""Explains why a verb waits: the bootstrap address answers, but a broker advertises an address that cannot be reached.

A client waits for that broker for a minute or two, and cannot know that it will never answer. While a verb works, a
thread checks the addresses once, a moment after the start. Verbs that are done by then lose no time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from pybroker.cli.common.verbs import complain

PATIENCE_S = 1.0
STEP_S = 1.5
"""The time limit for asking a broker, and then for trying all addresses at once. With the wait before, these are less
than five seconds.
"""
MOST = 16
"""How many brokers are checked."""


@contextlib.contextmanager
def told(bootstrap: str, settings: Mapping[str, str]) -> Iterator[None]:
    """During the block, reports once on stderr which brokers cannot be reached at their advertised address."""
    ended = threading.Event()
    is_plain = settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    if is_plain:
        threading.Thread(target=watch, args=(bootstrap, ended), name="addresses", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def watch(bootstrap: str, ended: threading.Event) -> None:
    """Checks the addresses after a moment, unless the verb has ended before."""
    if ended.wait(PATIENCE_S):
        return
    for line in wrong(bootstrap):
        if not ended.is_set():
            complain(line)


def wrong(bootstrap: str) -> Iterator[str]:
    """Yields a line for each broker that cannot be reached at its advertised address; none if no broker answers.
    """
    from pybroker.cli.reaching import asking, network
    from pybroker.cli.reaching.finding import ERROR

    for host, port in network.addresses(bootstrap):
        try:
            found = asking.brokers(host, port, STEP_S).brokers[:MOST]
        except (OSError, asking.Foreign):
            continue
        came_by = network.Reach(host, port, (), 0.0)
        with ThreadPoolExecutor(MOST) as threads:
            ways = list(threads.map(lambda broker: network.reach(broker.host, broker.port, STEP_S), found))
        for broker, way in zip(found, ways, strict=True):
            told = network.advertised(broker.id, way, came_by, ways)
            if told.level == ERROR:
                yield f"{told.check}: {told.found}: {told.advice}"
        return
