"""What happens to a controller's write that the store refuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.decisions.plan import NewTopic, Step
from pybroker.cluster.metadata import journal
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.cluster.nodes.controller_election import Leadership
from pybroker.cluster.nodes.recording import Differs, Fenced, Recorder
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
    Operation,
    Session,
    SessionExpired,
    Set,
    TooLarge,
)
from pyclient.protocol import errors


class Refusing:
    """A store that refuses every write."""

    session = Session(1)

    def __init__(self, error: CoordinationError) -> None:
        self._error = error

    async def multi(self, operations: Sequence[Operation]) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (BadVersion("/controller_epoch"), Fenced),
        (SessionExpired("session 7 is over"), errors.NotController),
        (ConnectionLoss("no answer"), Fenced),
        (TooLarge("2 MiB"), errors.UnknownServerError),
    ],
    ids=["epoch", "session", "unknown", "size"],
)
def test_a_broker_that_can_no_longer_write_is_not_the_controller(
    refusal: CoordinationError, told: type[errors.KafkaError]
) -> None:
    """Its client then tries the next controller. After UNKNOWN_SERVER_ERROR, the client would not."""
    recorder = Recorder(Refusing(refusal), Leadership(1, 0), ())  # type: ignore[arg-type]
    with pytest.raises(told) as raised:
        asyncio.run(recorder.write(Step((), MetadataDelta(version=1)), MetadataImage()))
    assert raised.type is told


@pytest.mark.parametrize(
    ("index", "told"), [(0, Fenced), (1, Differs), (2, Differs), (3, Fenced), (4, Fenced)]
)
@pytest.mark.parametrize("kind", [BadVersion, NoNode, NodeExists])
def test_only_a_failed_epoch_check_or_journal_entry_means_that_there_is_another_controller(
    kind: type[CoordinationError], index: int, told: type[errors.KafkaError]
) -> None:
    """If a node of the change itself fails, the image is wrong, and no new controller is needed."""
    recorder = Recorder(Refusing(kind("/path", index)), Leadership(1, 0), range(journal.KEPT + 1))  # type: ignore[arg-type]
    step = Step((Set("/a", b""), Set("/b", b"")), MetadataDelta(controller=(1, 1)))
    with pytest.raises(told) as raised:
        asyncio.run(recorder.write(step, MetadataImage()))
    assert raised.type is told


class Silent:
    """A store that performs writes, but loses the next ``lost`` answers."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def multi(self, operations: Sequence[Operation]) -> object:
        if not self.lost:
            return await self._store.multi(operations)
        self.lost -= 1
        with contextlib.suppress(CoordinationError):  # a repeated write was done already
            await self._store.multi(operations)
        raise ConnectionLoss("no answer")


def test_a_write_of_unknown_outcome_ends_the_controllers_term_and_the_next_term_finds_it(tmp_path: Path) -> None:
    """No change is planned on an image that may lack that write."""

    async def scenario(members: Members) -> None:
        controller = await members.start(1, wrap=Silent)
        await members.start(2)
        await members.settled()
        store: Any = controller.store
        store.lost = 2
        with pytest.raises(errors.NotController):
            await controller.node.controller.create_topics([NewTopic("t", 1, 2)])
        assert not controller.is_controller
        await members.until(lambda: members.has_settled and members.controller.image.controller_epoch > 1)
        await members.controller.node.controller.create_topics([NewTopic("u", 1, 2)])
        assert (await members.settled()).topics.keys() == {"t", "u"}
        assert not any(delta.deleted for member in members.alive.values() for delta in member.deltas)

    run(tmp_path / "db", scenario)
