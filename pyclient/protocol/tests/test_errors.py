"""The table of errors; test_against_kafka compares it with Kafka's."""

from __future__ import annotations

import pickle

import pytest

from pyclient.protocol import errors


def test_every_row_is_a_class_named_in_camel_case() -> None:
    for code, name, retriable, text in errors.ROWS:
        error = getattr(errors, errors.class_name(name))
        assert issubclass(error, errors.KafkaError)
        assert (error.code, error.name, error.retriable, error.text) == (
            code,
            name,
            retriable,
            text,
        )
        assert errors.by_code(code) is error


def test_an_error_has_its_given_message_or_the_default_of_its_code() -> None:
    assert str(errors.OffsetOutOfRange("7 is below 9")) == "7 is below 9"
    assert str(errors.OffsetOutOfRange()) == errors.OffsetOutOfRange.text


def test_code_0_gives_none_and_an_unknown_code_an_unknown_error() -> None:
    assert errors.by_code(errors.NONE) is None
    assert errors.by_code(9999) is errors.UnknownServerError


def test_an_invalid_record_error_names_the_record() -> None:
    error = errors.InvalidRecord("bad", [(3, "no key")])
    assert error.record_errors == [(3, "no key")]
    assert errors.InvalidRecord().record_errors == []


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(errors.NotLeaderOrFollower("moved")))
    assert type(error) is errors.NotLeaderOrFollower
    assert str(error) == "moved"
    invalid = pickle.loads(pickle.dumps(errors.InvalidRecord("bad", [(3, "no key")])))
    assert invalid.record_errors == [(3, "no key")]


def test_codes_and_names_are_unique() -> None:
    assert len({row[0] for row in errors.ROWS}) == len({row[1] for row in errors.ROWS}) == 137


def test_an_error_can_be_caught_as_any_kafka_error() -> None:
    with pytest.raises(errors.KafkaError) as caught:
        raise errors.CorruptMessage
    assert (caught.value.code, caught.value.retriable) == (2, True)
