"""Which settings of ``kafka.*`` the sink takes, and to which query a checkpoint belongs."""

from __future__ import annotations

import pytest

from pyclient.errors import ConfigError
from pyclient.spark.sink.checkpoint import query_of
from pyclient.spark.sink.settings import client_settings

AT = {"bootstrap.servers": "localhost:9092"}


def test_settings_reach_the_producer_unchanged():
    assert client_settings({**AT, "linger.ms": "7"}, exactly_once=False) == {**AT, "linger.ms": "7"}


def test_exactly_once_defaults_to_a_transaction_timeout_of_15_minutes():
    assert client_settings(AT, exactly_once=True)["transaction.timeout.ms"] == "900000"
    given = {**AT, "transaction.timeout.ms": "5000"}
    assert client_settings(given, exactly_once=True) == given


@pytest.mark.parametrize(
    ("settings", "exactly_once", "said"),
    [
        ({}, False, "kafka.bootstrap.servers is missing"),
        ({**AT, "value.serializer": "x"}, False, "kafka.value.serializer is not supported: .* column value"),
        ({**AT, "transactional.id": "x"}, False, "kafka.transactional.id is not supported: .* delivery"),
        ({**AT, "acks": "1"}, True, "kafka.acks=1: exactly-once needs all"),
        ({**AT, "enable.idempotence": "false"}, True, "exactly-once needs true"),
        ({**AT, "linger": "1"}, False, "linger.ms"),
    ],
)
def test_an_error_names_the_invalid_setting(settings, exactly_once, said):
    with pytest.raises(ConfigError, match=said):
        client_settings(settings, exactly_once=exactly_once)


def test_the_query_id_is_read_from_a_checkpoint_path_or_uri(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"the-query"}')
    assert query_of(str(tmp_path)) == query_of(f"file://{tmp_path}/") == query_of(f"file:{tmp_path}") == "the-query"


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_an_unreadable_checkpoint_yields_no_query_id(tmp_path, content):
    if content is not None:
        (tmp_path / "metadata").write_text(content)
    assert query_of(str(tmp_path)) is None
    assert query_of(None) is None
    assert query_of("gopher://nowhere/checkpoint") is None
