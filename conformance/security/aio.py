"""Adapts aiokafka to the tests of security."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from conformance.drivers.logins import Login
from conformance.security.base import PATIENCE_S, Client, Refused
from harness.witnesses import used


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    used("aiokafka")
    try:
        return asyncio.run(asyncio.wait_for(work, PATIENCE_S))
    except KafkaError as error:
        raise Refused(type(error).__name__, error) from error


class AiokafkaClient(Client):
    refusals = {
        "topic": "TopicAuthorizationFailedError",
        "group": "GroupAuthorizationFailedError",
        "transactional id": "TransactionalIdAuthorizationFailed",
        "cluster": "ClusterAuthorizationFailedError",
        "login": "AuthenticationFailedError",
    }

    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        async def work() -> None:
            async with AIOKafkaProducer(**login.aiokafka(), enable_idempotence=idempotent) as producer:
                await producer.send_and_wait(topic, value)

        _run(work())

    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        async def work() -> list[bytes]:
            more = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
            async with AIOKafkaConsumer(topic, **login.aiokafka(), **more) as consumer:
                values = [(await consumer.getone()).value for _ in range(count)]
                await consumer.commit()
                return values

        found: list[bytes] = _run(work())
        return found

    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        async def work() -> None:
            producer = AIOKafkaProducer(**login.aiokafka(), transactional_id=transactional_id)
            async with producer, producer.transaction():
                await producer.send_and_wait(topic, b"x")

        _run(work())
