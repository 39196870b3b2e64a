"""The two sides of a membership: a coordinator whose answers the test scripts, and an application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyclient.config import Config
from pyclient.consumer.appointments import SETTLE, Appointments
from pyclient.core.client import Client
from pyclient.errors import KafkaError
from pyclient.protocol.apis import Api


class Coordinated(Client):
    """A client with a scripted coordinator. ``answers``: by API, the function that makes the response."""

    def __init__(self, config: Config, answers: dict[Api, Callable[[Any], Any]]) -> None:
        super().__init__(config, loop=asyncio.get_running_loop())
        self.answers = answers
        self.asked: list[Api] = []

    async def coordinator(self, *_: Any) -> int:
        return 1

    async def send(self, node: int, api: Api, message: Any, **_: Any) -> Any:
        await asyncio.sleep(0)
        self.asked.append(api)
        return self.answers[api](message(4) if callable(message) else message)


class Application:
    """The owner of the membership. ``told`` lists the calls of its listener."""

    has_listener = True

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_late = False
        self.errors: list[KafkaError] = []

    async def commit_settled(self) -> None:
        pass

    def on_assignment(self) -> None:
        pass

    def on_error(self, error: KafkaError) -> None:
        self.errors.append(error)

    def on_fault(self, error: KafkaError) -> None:
        self.errors.append(error)

    def poll_is_late(self) -> bool:
        return self.is_late

    def poll(self, appointments: Appointments) -> None:
        while (call := appointments.due()) is not None:
            with appointments.keeping(call):
                if call.action != SETTLE:
                    self.told.append(call.action)
