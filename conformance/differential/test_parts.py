"""The harness itself, without brokers: what it generates can be sent, what differs is found, shrunk and explained."""

from __future__ import annotations

import pytest

from conformance.differential import accepted
from conformance.differential.broker_side import World
from conformance.differential.compare import Difference, differences
from conformance.differential.generate import KINDS, sequence
from conformance.differential.guarded import guarded_sequence
from conformance.differential.requests import VERBS, request_fields
from conformance.differential.shrink import shrink
from conformance.differential.step import parse, show, step
from harness.protocol.wire_client import Wire, encode_request


def nowhere(actor: int) -> Wire:
    """Connects no actor."""
    raise ConnectionRefusedError


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_that_is_generated_can_be_sent(kind: str) -> None:
    for number in range(300):
        world = World(nowhere, "x-", {})
        for one in guarded_sequence(7, number, (kind,))[1]:
            encode_request(VERBS[one.verb].api, one.version, request_fields(world, one))


def test_a_seed_gives_the_same_sequences_every_time() -> None:
    assert sequence(1, 5) == sequence(1, 5)
    assert sequence(1, 5) != sequence(2, 5)


def test_a_sequence_can_be_read_back_from_what_is_shown() -> None:
    for number in range(50):
        steps = sequence(3, number)[1]
        assert parse(show(steps)) == steps


def test_every_verb_is_generated() -> None:
    drawn = {one.verb for number in range(400) for one in guarded_sequence(1, number)[1]}
    assert drawn == set(VERBS)


def test_different_values_are_reported_with_their_path() -> None:
    left = {"error_code": 0, "topics": [{"name": "a", "offset": 3}]}
    right = {"error_code": 5, "topics": [{"name": "a", "offset": 4}]}
    found = [(one.path, one.left, one.right) for one in differences("Fetch", 4, left, right)]
    assert found == [("error_code", "0", "5"), ("topics[].offset", "3", "4")]


def test_a_row_that_one_side_lacks_is_a_difference() -> None:
    assert [one.path for one in differences("Fetch", 4, {"topics": [{"name": "a"}]}, {"topics": []})] == ["topics"]


def test_shrinking_keeps_the_steps_that_cause_the_difference() -> None:
    rest = (step(0, "describe", version=number) for number in range(9))
    steps = [step(0, "heartbeat", version=4, member="none"), *rest]
    kept = shrink(steps, lambda some: any(one.version == 6 for one in some) and len(some) >= 2)
    assert len(kept) == 2
    assert any(one.version == 6 for one in kept)


PAGE = f"""{accepted.START}
| No. | API and versions | Field | Kafka | pybroker | Why |
|---|---|---|---|---|---|
| 1 | Produce 3-11 | responses[].*.error_code | 45 | 46 | better |
| 2 | Fetch | `topics[]` | * | `<absent>` | never mind |
{accepted.END}"""


def test_a_row_covers_the_difference_it_describes_and_no_other() -> None:
    table = accepted.rows(PAGE)
    same = Difference("Produce", 7, "responses[].partition_responses[].error_code", "46", "45")
    assert table[0].covers(same)
    assert not table[0].covers(Difference("Produce", 12, same.path, "46", "45"))
    assert not table[0].covers(Difference("Produce", 7, same.path, "45", "46"))
    assert accepted.unexplained([same], table) == []


def test_a_row_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="six filled columns"):
        accepted.rows(PAGE.replace("never mind", ""))


def test_the_page_is_a_table_that_can_be_read() -> None:
    numbers = [row.number for row in accepted.load()]
    assert numbers == sorted(set(numbers), key=int)
