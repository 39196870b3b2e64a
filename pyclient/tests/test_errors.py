"""The SDK's errors."""

from __future__ import annotations

import pickle

import pytest

from pyclient import errors
from pyclient.errors import ConnectionFailed, ConnectionLost, KafkaError, of_code
from pyclient.protocol.errors import ROWS, ProducerFenced

CLIENT = [
    errors.ConfigError("x"),
    errors.ClientClosed(),
    errors.ClientForked(),
    errors.BufferExhausted("full"),
    errors.WakeupError(),
    errors.UnsupportedByBroker("x"),
    ConnectionFailed("h:1", "connect", OSError(111, "refused")),
    ConnectionLost("h:1", "Fetch", "idle"),
]


@pytest.mark.parametrize("error", CLIENT, ids=lambda each: type(each).__name__)
def test_errors_of_the_client_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert isinstance(error, KafkaError)


def test_errors_of_kafka_can_be_pickled():
    for code, *_ in ROWS:
        error = of_code(code, "text")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), "text")


def test_a_failed_connection_has_host_phase_and_cause():
    cause = OSError(111, "refused")
    error = pickle.loads(pickle.dumps(ConnectionFailed("h:1", "connect", cause)))
    assert (error.host, error.phase, str(error.cause)) == ("h:1", "connect", str(cause))
    assert str(error) == "h:1: connect failed: [Errno 111] refused"
    assert error.retriable
    assert isinstance(error, ConnectionError)


def test_code_0_is_not_an_error():
    assert of_code(0) is None
    errors.check(0)


def test_kafkas_errors_are_classes_of_the_module():
    assert errors.ProducerFenced is ProducerFenced
    assert ProducerFenced.fatal
    assert not errors.NotCoordinator.fatal
    with pytest.raises(AttributeError):
        _ = errors.Nonsense
