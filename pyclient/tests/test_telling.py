"""What clients report about themselves: in DEBUG logs, in a notebook and as metrics, and how they show values that
cannot be shown.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition, aio
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, take, until

NOWHERE = "127.0.0.1:1"


# -- DEBUG -------------------------------------------------------------------------------------------------


def told(caplog, *parts):
    """Returns whether one log line contains all of these texts."""
    return any(all(part in line for part in parts) for line in caplog.messages)


def test_a_producer_logs_its_actions_at_level_debug(broker, topic, group, caplog):
    caplog.set_level(logging.DEBUG, "pyclient")
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"secret").result(PATIENCE_S)
        number, epoch = producer.producer_id
    assert told(caplog, f"{broker.bootstrap}: connected", "Produce ", "Fetch ")
    assert told(caplog, "metadata refreshed", "brokers [1]")
    assert told(caplog, f"producer id {number}, epoch {epoch}")
    with Producer(broker.bootstrap, transactional_id=group) as producer:
        with producer.transaction():
            producer.send(topic, b"secret").result(PATIENCE_S)
        number, _ = producer.producer_id
    assert told(caplog, f"the coordinator of transaction {group} is broker 1")
    for state in ("READY", "OPEN", "ENDING"):
        assert told(caplog, f"{group}: {state}", f"producer_id={number}")
    assert "secret" not in caplog.text
    assert all("\n" not in line for line in caplog.messages)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_member_logs_its_actions_at_level_debug(broker, topic, group, caplog, protocol):
    caplog.set_level(logging.DEBUG, "pyclient")
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"secret"] * 100).result(PATIENCE_S)
    settings = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap, topics=topic, max_poll_records=50, **settings) as consumer:
        take(consumer, 50)
        before = len(caplog.messages)
        take(consumer, 50)
        assert len(caplog.messages) < before + 10
        consumer.subscribe([unique("another")])
        until(lambda: not consumer.poll(timeout=0.1) and not consumer.assignment())
    assert told(caplog, f"the coordinator of group {group} is broker 1")
    assert told(caplog, f"group {group}, member ", f"assigned ['{topic}-0'], revoked []")
    assert told(caplog, f"group {group}, member ", f"assigned [], revoked ['{topic}-0']")
    assert "secret" not in caplog.text


# -- repr --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_repr_of_a_client_shows_addresses_name_and_state(broker, kind):
    name = kind.__name__
    with kind(broker.bootstrap, client_id="me") as client:
        assert repr(client) == f"<{name} of {broker.bootstrap}, client.id me: not connected>"
        client.connect(PATIENCE_S)
        assert repr(client) == f"<{name} of {broker.bootstrap}, client.id me: connected>"
    assert repr(client) == f"<{name} of {broker.bootstrap}, client.id me: closed>"


def test_repr_of_an_asyncio_client_shows_addresses_name_and_state(broker, group):
    async def work():
        for kind, more in ((aio.Producer, "transactional_id"), (aio.Consumer, "group_id"), (aio.Admin, None)):
            settings = {} if more is None else {more: group}
            client = kind(broker.bootstrap, **settings)
            await client.connect(PATIENCE_S)
            shown = "" if more is None else f", {more.replace('_', '.')} {group}"
            assert repr(client) == f"<{kind.__name__} of {broker.bootstrap}, client.id pyclient{shown}: connected>"
            await client.close()
            assert repr(client).endswith(": closed>")

    asyncio.run(work())


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin, aio.Producer, aio.Consumer, aio.Admin])
def test_repr_works_for_a_client_that_failed_to_start(kind):
    unmade = type("Unmade", (kind,), {"__init__": lambda self: None})()
    assert repr(unmade) == "<Unmade whose constructor failed>"


# -- records -----------------------------------------------------------------------------------------------


class Unshowable:
    def __repr__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("deserializer", "shown"),
    [
        (bytes.decode, "value=<unreadable: UnicodeDecodeError>"),
        (lambda data: 1 / 0, "value=<unreadable: ZeroDivisionError>"),
        (lambda data: Unshowable(), "value=<unreadable: ZeroDivisionError>"),
        (None, r"value=b'\xff\xfe'"),
    ],
)
def test_repr_works_for_any_record(broker, producer, topic, deserializer, shown):
    producer.send(topic, b"\xff\xfe", key=b"\xff", headers=[("h", b"\xfd"), ("n", None)]).result(PATIENCE_S)
    settings = {"key_deserializer": deserializer, "value_deserializer": deserializer}
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", topics=topic, **settings) as consumer:
        records = consumer.poll(timeout=PATIENCE_S)
    (record,) = records
    assert shown in repr(record)
    assert str(record) == repr(record) == f"{records}"[len("Records([") : -len("])")]
    assert r"headers=[('h', b'\xfd'), ('n', None)]" in repr(record)


# -- what is awaited ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True])
def test_create_task_of_a_report_is_refused_with_what_to_write(broker, topic, many):
    async def work():
        async with aio.Producer(broker.bootstrap) as producer:
            report = await (producer.send_many(topic, [b"v"]) if many else producer.send(topic, b"v"))
            with pytest.raises(TypeError, match=r"asyncio\.ensure_future"):
                asyncio.create_task(report)  # noqa: RUF006
            with pytest.raises(ExceptionGroup) as raised:
                async with asyncio.TaskGroup() as group:
                    group.create_task(report)
            assert isinstance(raised.value.exceptions[0], TypeError)
            await asyncio.wait_for(asyncio.ensure_future(report), PATIENCE_S)
            assert "ensure_future" not in repr(report)

    asyncio.run(work())


# -- numbers -----------------------------------------------------------------------------------------------


def test_a_producer_has_metrics_under_kafkas_names(broker, topic):
    with Producer(broker.bootstrap, linger_ms=3_600_000, buffer_memory=1_000_000) as producer:
        producer.connect(PATIENCE_S)
        found = producer.metrics()["producer-metrics"]
        assert found["buffer-available-bytes"] == found["buffer-total-bytes"] == 1_000_000
        assert (found["connection-count"], found["requests-in-flight"]) == (1, 0)
        producer.send(topic, b"v")
        assert producer.metrics()["producer-metrics"]["buffer-available-bytes"] < 1_000_000
    assert producer.metrics()["producer-metrics"]["connection-count"] == 0


def test_a_consumer_has_its_lag_under_kafkas_metric_names(broker, topic):
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"v"] * 10).result(PATIENCE_S)
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", max_poll_records=4) as consumer:
        assert consumer.metrics()["consumer-fetch-manager-metrics"] == {}
        consumer.assign([TopicPartition(topic, 0)])
        take(consumer, 4)
        found = consumer.metrics()
    assert found["consumer-coordinator-metrics"] == {"assigned-partitions": 1}
    assert found["consumer-fetch-manager-metrics"] == {"records-lag-max": 6}
    assert found[f"consumer-fetch-manager-metrics.{topic}-0"] == {"records-lag": 6}
    assert found["consumer-metrics"]["connection-count"] >= 1
