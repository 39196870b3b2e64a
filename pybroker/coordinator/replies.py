"""Answers requests: replies wait until their records are durable, and errors become those of coordinators."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from pybroker.coordinator.shard import Reply
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Promise = asyncio.Future[Any]


def settle(token: Any, outcome: Any) -> None:
    """Completes a token, unless it is None or its request was cancelled."""
    if token is None or token.done():
        return
    if isinstance(outcome, KafkaError):
        token.set_exception(errors.without_frames(outcome))
    else:
        token.set_result(outcome)


def send(replies: list[Reply], promise: Promise | None) -> None:
    """Sends the replies when the promise is done."""
    if promise is not None and not promise.done():
        promise.add_done_callback(partial(send, replies))
        return
    error = None if promise is None else why_not(promise)
    for token, response in replies:
        settle(token, response if error is None else error)


def why_not(promise: Promise) -> KafkaError | None:
    """Returns the error that clients get for a failed promise; None if the promise succeeded."""
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
    """Returns the error that clients get if a write to the internal topic failed with ``error``."""
    told = _TOLD.get(type(error), type(error))
    return told(f"the coordinator could not write: {error}")
