"""What becomes of a controller's write that the store does not take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pybroker.cluster.image import MetadataDelta, MetadataImage
from pybroker.cluster.leadership import Leadership
from pybroker.cluster.plan import Step
from pybroker.cluster.recording import Fenced, Recorder
from pybroker.coordination.interface import BadVersion, CoordinationError, Operation, SessionExpired, TooLarge
from pyclient.protocol import errors


class Refusing:
    """A store that refuses every write."""

    def __init__(self, error: CoordinationError) -> None:
        self._error = error

    async def multi(self, operations: Sequence[Operation]) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (BadVersion("/controller_epoch"), Fenced),
        (SessionExpired("session 7 is over"), errors.NotController),
        (TooLarge("2 MiB"), errors.UnknownServerError),
    ],
    ids=["epoch", "session", "size"],
)
def test_who_may_not_write_any_more_is_not_the_controller(
    refusal: CoordinationError, told: type[errors.KafkaError]
) -> None:
    """Whoever asked then tries the next one, which UNKNOWN_SERVER_ERROR would keep him from."""
    recorder = Recorder(Refusing(refusal), Leadership(1, 0), ())  # type: ignore[arg-type]
    with pytest.raises(told) as raised:
        asyncio.run(recorder.write(Step((), MetadataDelta(version=1)), MetadataImage()))
    assert raised.type is told
