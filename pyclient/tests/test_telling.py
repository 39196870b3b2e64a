"""What clients say of themselves, and of what cannot be shown."""

from __future__ import annotations

import asyncio

import pytest

from pyclient import Consumer, aio
from pyclient.tests.support import PATIENCE_S


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
def test_a_record_can_be_shown_whatever_it_holds(broker, producer, topic, deserializer, shown):
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
def test_a_report_in_create_task_is_refused_with_what_to_write(broker, topic, many):
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
