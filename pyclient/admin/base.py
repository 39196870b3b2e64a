"""The base of the asynchronous admin client's parts: the client core, and deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from cy.seconds import seconds
from pyclient.admin.fan_out import Anywhere, fetch_metadata
from pyclient.config import ADMIN, load
from pyclient.core.client import Client
from pyclient.core.deadline import Deadline
from pyclient.core.nodes.connection import Request
from pyclient.core.reports.unclosed import watch
from pyclient.core.showing import shown
from pyclient.core.tasks import running_loop
from pyclient.errors import KafkaError
from pyclient.errors import check as check_code
from pyclient.protocol import Metadata
from pyclient.protocol.apis import Api
from pyclient.protocol.errors import BrokerNotAvailable
from pyclient.topic_partition import TopicPartition

S = TypeVar("S", bound="Base")


class Base:
    """Connects on the first request. Each method takes a ``timeout`` in seconds, retries included, by default
    default.api.timeout.ms. After that time it raises the last error.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str] | None = None,
        /,
        config: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Takes the settings of ``pyclient.config.ADMIN``, with ``_`` or ``.``. Raises ConfigError, and RuntimeError
        without a running loop.
        """
        self._config = load(ADMIN, bootstrap_servers, config, settings)
        self._client = Client(self._config, loop=running_loop("an aio.Admin"))
        self._timeout: float = self._config.default_api_timeout_ms / 1000
        """The default time limit of a method, in seconds."""
        self.unclosed = watch(self, "pyclient.aio.Admin", self._client.close)
        """Warns if this client is never closed. Call its ``detach()`` if other code closes the client."""

    def __repr__(self) -> str:
        if not hasattr(self, "unclosed"):
            return f"<{type(self).__name__} whose constructor failed>"
        return self._shown(not self.unclosed.alive)

    def _shown(self, is_closed: bool) -> str:
        return shown(type(self).__name__, self._config, self._client, is_closed)

    async def connect(self, timeout: float | None = None) -> None:
        """Connects now, so that a wrong address is noticed early. Raises ConnectionFailed."""
        await self._client.start(timeout)

    async def close(self, timeout: float = 0.0) -> None:
        """Closes the connections. Waiting calls fail with ClientClosed."""
        seconds(timeout)
        self.unclosed.detach()
        await self._client.close(timeout)

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _deadline(self, timeout: float | None) -> Deadline:
        return self._client.deadline(timeout)

    def _left_ms(self, deadline: float) -> int:
        """Returns the milliseconds that a broker may take for a request."""
        left = round((deadline - self._client.clock()) * 1000)
        limit: int = self._config.request_timeout_ms
        return max(1, min(left, limit))

    async def _any(self, api: Api, message: Any, deadline: float) -> Any:
        """Returns the response of any broker; retries while none can be reached."""

        async def attempt() -> Any:
            return await self._client.send(self._client.nodes.any_node(), api, message)

        return await self._client.retrying(attempt, deadline=deadline)

    async def _at_controller(self, api: Api, message: Request, deadline: float) -> Any:
        """Returns the controller's response; raises its top-level error."""
        places = Anywhere(self._client, controller=True)

        async def attempt() -> Any:
            place = (await places((api,)))[api]
            if isinstance(place, KafkaError):
                raise place
            response = await self._client.send(place, api, message)
            check_code(response.error_code, getattr(response, "error_message", None))
            return response

        return await self._client.retrying(attempt, deadline=deadline)

    async def _metadata(self, topics: list[str] | None, deadline: float) -> Metadata.Response:
        async def attempt() -> Metadata.Response:
            return await fetch_metadata(self._client, topics)

        return await self._client.retrying(attempt, deadline=deadline)

    async def _brokers(self) -> list[int]:
        """Returns the current ids of all brokers. Makes one attempt: the caller retries."""
        await fetch_metadata(self._client, [])
        return sorted(self._client.cluster.brokers)

    async def _known(self, broker: int) -> int:
        """Returns ``broker`` once its address is known. Raises BrokerNotAvailable."""
        known = self._client.cluster.brokers
        if broker not in known and broker not in await self._brokers():
            raise BrokerNotAvailable(f"broker {broker} is not in the cluster")
        return broker


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns partition numbers by topic, in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def names(given: str | Iterable[str]) -> list[str]:
    """Returns one name or several as a list without duplicates. Raises TypeError."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Iterable):
        raise TypeError(f"{given!r} is neither a name nor a list of names: a name is a str")
    found = list(given)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"{each!r} is not a name: a name is a str")
    return list(dict.fromkeys(found))


def config_text(value: str | float | None) -> str | None:
    """Returns the text of a configuration's value, which may be a number or a bool, as Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
