"""Answers tokens: replies that wait until their records are safe, and errors as a coordinator names them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from pybroker.coordinator.shard import Reply
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Promise = asyncio.Future[Any]


def settle(token: Any, outcome: Any) -> None:
    """Ends a token, unless there is none or its waiter has gone."""
    if token is None or token.done():
        return
    if isinstance(outcome, KafkaError):
        token.set_exception(errors.without_frames(outcome))
    else:
        token.set_result(outcome)


def send(replies: list[Reply], promise: Promise | None) -> None:
    """Tells everybody, once the promise holds."""
    if promise is not None and not promise.done():
        promise.add_done_callback(partial(send, replies))
        return
    error = None if promise is None else why_not(promise)
    for token, response in replies:
        settle(token, response if error is None else error)


def why_not(promise: Promise) -> KafkaError | None:
    """Returns the error for clients of a promise that is over, or None if it holds."""
    if promise.cancelled():
        return errors.NotCoordinator()
    error = promise.exception()
    if isinstance(error, KafkaError):
        return coordinator_error(error)
    return None if error is None else errors.UnknownServerError()


_TOLD: dict[type[KafkaError], type[KafkaError]] = {
    errors.UnknownTopicOrPartition: errors.CoordinatorNotAvailable,
    errors.NotEnoughReplicas: errors.CoordinatorNotAvailable,
    errors.NotEnoughReplicasAfterAppend: errors.CoordinatorNotAvailable,
    errors.RequestTimedOut: errors.CoordinatorNotAvailable,
    errors.NotLeaderOrFollower: errors.NotCoordinator,
    errors.FencedLeaderEpoch: errors.NotCoordinator,
    errors.KafkaStorageError: errors.NotCoordinator,
    errors.MessageTooLarge: errors.UnknownServerError,
    errors.RecordListTooLarge: errors.UnknownServerError,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """Returns the client's error for a write to the internal topic that failed with ``error``."""
    told = _TOLD.get(type(error), type(error))
    return told(f"the coordinator could not write: {error}")
