"""Plays exchanges.txt: hand-made requests, and every byte of their answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conformance.conftest import QUICK_GROUPS
from harness.protocol import error_codes, kinds
from harness.protocol.wire_client import Wire, framed
from harness.servers.brokers import Broker
from harness.waiting import settled, until

FILE = Path(__file__).with_name("exchanges.txt")
OURS = "ours"
"""Titles of cases that Kafka answers differently begin so."""


class Case(NamedTuple):
    title: str
    request: bytes
    answer: str  # Hexadecimal digits, ".." and "*", or "closed".


def cases() -> Iterator[Case]:
    text = re.sub(r"#.*", "", FILE.read_text())
    for block in text.split("\n= ")[1:]:
        title, _, frames = block.partition("\n")
        request, _, answer = frames.partition("<")
        yield Case(title, bytes.fromhex(request.replace(">", "")), "".join(answer.split()))


@pytest.fixture(scope="module")
def fresh(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """Starts a broker with the empty topic, whose group coordinator is ready."""
    with broker_kind(data_root / "exchanges", broker_rack="r", **QUICK_GROUPS) as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("bytes")
            group = {"key": "g", "key_type": kinds.GROUP}
            until(lambda: not wire.ask("FindCoordinator", 1, **group).error_code, "a coordinator")
            member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
            settled(lambda: wire.ask("Heartbeat", 0, **member), error_codes.COORDINATOR_NOT_READY, "the group's load")
        yield broker


def play(case: Case, broker: Broker) -> str | None:
    """Plays a case. Returns the fault of the answer, None if it is right."""
    with Wire(broker.address) as wire:
        wire.send(framed(case.request))
        if case.answer == "closed":
            return None if wire.closed_by_peer() else f"{case.title}: not closed"
        answer = wire.receive().hex()
    is_right = re.fullmatch(case.answer.replace("*", ".*"), answer)
    return None if is_right else f"{case.title}:\n{answer}\n{case.answer}"


def test_every_response_has_the_recorded_bytes(fresh: Broker) -> None:
    """The cases run in order: one reads what another writes."""
    played = [case for case in cases() if fresh.name == OURS or not case.title.startswith(OURS)]
    assert len(played) > 10
    assert [wrong for case in played if (wrong := play(case, fresh))] == []
