"""Creates 10,000 partitions on three brokers, kills the controller, and restarts all brokers."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

from conformance.bench.cases import Figures, LoadError, Scale
from conformance.bench.cluster.trio import REPLICAS, KafkaTrio, Trio
from harness.protocol.wire_client import Wire, encode_request

A_TOPIC = 1_000
PATIENCE_S = 180.0
PAUSE_S = 0.01


def many_partitions(trio: Trio, scale: Scale) -> Figures:
    """Measures the seconds until every partition has its leader: after the creation, a kill -9 of the controller, and a
    restart. Also measures memory.
    """
    names = [f"wide-{number}" for number in range(max(1, scale.partitions // A_TOPIC))]
    each = scale.partitions // len(names)
    start = time.monotonic()
    for name in names:
        _create(trio, name, each)
    _wait(trio, names, each, set(trio.ids))
    created = time.monotonic()
    controller = trio.controller()
    trio.kill(controller)
    left = set(trio.ids) - {controller}
    killed = time.monotonic()
    new_s = _until_controlled(trio, left) - killed
    _wait(trio, names, each, left)
    failed_over = time.monotonic()
    trio.revive(controller)
    _wait_in_sync(trio, names, each)
    rss_mb = trio.rss_kib() * 1024 / 1e6
    stopping = time.monotonic()
    trio.stop()
    starting = time.monotonic()
    trio.start()
    _wait(trio, names, each, set(trio.ids))
    is_known = not isinstance(trio, KafkaTrio)  # KRaft names any broker to clients as the controller
    return {
        "wide_create_s": created - start,
        **({"wide_controller_s": new_s} if is_known else {}),
        "wide_failover_s": failed_over - killed,
        "wide_stop_s": starting - stopping,
        "wide_restart_s": time.monotonic() - starting,
        "wide_rss_mb": rss_mb,
    }


def _create(trio: Trio, name: str, partitions: int) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": REPLICAS}
    topic |= {"assignments": [], "configs": []}
    with Wire(("127.0.0.1", trio.ports[trio.controller()]), 120) as wire:
        reply = wire.ask("CreateTopics", 4, topics=[topic], timeout_ms=100_000, validate_only=False)
    if reply.topics[0].error_code:
        raise LoadError(f"{name}: {reply.topics[0]}")


def _until_controlled(trio: Trio, left: set[int]) -> float:
    """Waits until one of the remaining brokers is the controller."""
    deadline = time.monotonic() + PATIENCE_S
    without = next(iter(set(trio.ids) - left))
    while time.monotonic() < deadline:
        if trio.controller(without) in left:
            return time.monotonic()
        time.sleep(PAUSE_S)
    raise LoadError(f"no controller within {PATIENCE_S:g} s")


def _wait(trio: Trio, names: list[str], partitions: int, brokers: set[int]) -> None:
    """Waits until one of these brokers leads each partition and says so itself."""
    for broker in brokers:
        _wait_at(trio.ports[broker], names, partitions, lambda leader, isr: leader in brokers)


def _wait_in_sync(trio: Trio, names: list[str], partitions: int) -> None:
    for port in trio.ports.values():
        _wait_at(port, names, partitions, lambda leader, isr: leader >= 0 and isr == REPLICAS)


def _wait_at(port: int, names: list[str], partitions: int, good: Callable[[int, int], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    for name in names:
        while True:
            try:
                found = list(leaders(port, name))
            except OSError:
                found = []
            if len(found) == partitions and all(good(*row) for row in found):
                break
            if time.monotonic() > deadline:
                raise LoadError(f"{name}: not every partition has its leader after {PATIENCE_S:g} s")
            time.sleep(PAUSE_S)


def leaders(port: int, topic: str) -> Iterator[tuple[int, int]]:
    """Returns the leader and the ISR size of every partition. It decodes by hand, because kafka-python's codec takes
    seconds.
    """
    with Wire(("127.0.0.1", port), 60) as wire:
        wire.send(encode_request("Metadata", 1, {"topics": [{"name": topic}]}))
        reply = wire.receive()
    place = 4
    (brokers,) = struct.unpack_from(">i", reply, place)
    place += 4
    for _ in range(brokers):
        place = _skip_text(reply, _skip_text(reply, place + 4) + 4)
    place = _skip_text(reply, place + 4 + 4 + 2) + 1  # the controller, the number of topics, the topic's error
    (partitions,) = struct.unpack_from(">i", reply, place)
    place += 4
    for _ in range(partitions):
        leader, replicas = struct.unpack_from(">ii", reply, place + 6)
        (isr,) = struct.unpack_from(">i", reply, place + 14 + 4 * replicas)
        place += 18 + 4 * (replicas + isr)
        yield leader, isr


def _skip_text(data: bytes, place: int) -> int:
    """Returns the position after a nullable string."""
    size = int.from_bytes(data[place : place + 2], "big", signed=True)
    return place + 2 + max(0, size)
