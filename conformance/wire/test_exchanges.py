"""Plays exchanges.txt: hand-made requests, and every byte of their answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from conformance.conftest import QUICK_GROUPS
from conformance.harness import kinds
from conformance.harness.brokers import Broker
from conformance.harness.wire_client import Wire, framed

FILE = Path(__file__).with_name("exchanges.txt")
COORDINATOR_IS_NOT_READY = {14, 15, 16}


class Case(NamedTuple):
    title: str
    request: bytes
    answer: str  # hexadecimal digits, ".." and "*", or "closed"


def cases() -> Iterator[Case]:
    text = re.sub(r"#.*", "", FILE.read_text())
    for block in text.split("\n= ")[1:]:
        title, _, frames = block.partition("\n")
        request, _, answer = frames.partition("<")
        yield Case(title, bytes.fromhex(request.replace(">", "")), "".join(answer.split()))


@pytest.fixture(scope="module")
def fresh(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """A broker of its own, with the empty topic, whose group coordinator is ready."""
    with broker_kind(data_root / "exchanges", broker_rack="r", **QUICK_GROUPS) as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("bytes")
            while wire.ask("FindCoordinator", 1, key="g", key_type=kinds.GROUP).error_code:
                pass
            group = {"group_id": "g", "generation_id": 1, "member_id": "m"}
            while wire.ask("Heartbeat", 0, **group).error_code in COORDINATOR_IS_NOT_READY:
                pass
        yield broker


def parameter(case: Case) -> ParameterSet:
    marks = [pytest.mark.ours] if case.title.startswith("ours:") else []
    return pytest.param(case, id=case.title, marks=marks)


@pytest.mark.parametrize("case", [parameter(case) for case in cases()])
def test_the_answer_has_these_bytes(case: Case, fresh: Broker) -> None:
    with Wire(fresh.address) as wire:
        wire.send(framed(case.request))
        if case.answer == "closed":
            assert wire.closed_by_peer()
            return
        answer = wire.receive().hex()
    assert re.fullmatch(case.answer.replace("*", ".*"), answer), f"\n{answer}\n{case.answer}"
