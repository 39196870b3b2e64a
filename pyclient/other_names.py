"""What other libraries call a method or class, and what it is here. Of clients: confluent-kafka, kafka-python and
aiokafka.

The names are attributes of our classes which only raise an error. ``__getattr__`` would make every other attribute
slower, also ``producer.send``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn, TypeVar, overload

K = TypeVar("K", bound=type)

PAGE: Final = "docs/coming-from.md"
_CONNECT: Final = "a client connects by itself; connect() does so now"
_CLOSE: Final = "close(), or a with block"

OF_PRODUCER: Final[Mapping[str, str]] = {
    "produce": "send()",
    "produce_batch": "send_many()",
    "send_batch": "send_many()",
    "poll": "not needed: callbacks are called without it",
    "start": _CONNECT,
    "stop": _CLOSE,
    "list_topics": "Admin.list_topics()",
    "send_offsets_to_transaction": "send_offsets()",
}
OF_CONSUMER: Final[Mapping[str, str]] = {
    "consume": "poll(timeout, max_records), which returns a list",
    "getone": "get()",
    "getmany": "poll(), which returns a list",
    "start": _CONNECT,
    "stop": _CLOSE,
    "unassign": "unsubscribe()",
    "topics": "list_topics()",
    "partitions_for_topic": "partitions_for()",
    "get_watermark_offsets": "beginning_offsets() and end_offsets()",
    "highwater": "end_offsets(), or current_lag()",
    "store_offsets": "commit(record), with enable_auto_commit=False",
    "consumer_group_metadata": "group_metadata()",
}
OF_ADMIN: Final[Mapping[str, str]] = {
    "start": _CONNECT,
    "alter_configs": "incremental_alter_configs()",
    "delete_groups": "delete_consumer_groups()",
}
OF_MODULE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("KafkaProducer", "SerializingProducer"), "Producer"),
    **dict.fromkeys(("KafkaConsumer", "DeserializingConsumer"), "Consumer"),
    "AIOKafkaProducer": "aio.Producer",
    "AIOKafkaConsumer": "aio.Consumer",
    **dict.fromkeys(("AdminClient", "KafkaAdminClient"), "Admin"),
    "AIOKafkaAdminClient": "aio.Admin",
    "KafkaException": "KafkaError",
    "ConsumerRebalanceListener": "RebalanceListener",
    **dict.fromkeys(("Message", "ConsumerRecord"), "Record"),
}


class OtherName:
    """A name that only another library has. An object answers it with AttributeError, so ``hasattr`` is false; a class
    has this descriptor.
    """

    __slots__ = ("_here", "_name", "_page")

    def __init__(self, name: str, here: str, page: str) -> None:
        self._name = name
        self._here = here
        self._page = page

    def __repr__(self) -> str:
        return f"<of other libraries; here: {self._here}>"

    @overload
    def __get__(self, instance: None, owner: type) -> OtherName: ...
    @overload
    def __get__(self, instance: object, owner: type) -> NoReturn: ...
    def __get__(self, instance: object, owner: type) -> OtherName:
        if instance is None:
            return self
        raise AttributeError(told(f"{owner.__name__!r} object", self._name, self._here, self._page))


def told(whose: str, name: str, here: str, page: str = PAGE) -> str:
    """Returns the text of the error."""
    return f"{whose} has no attribute {name!r}: here it is {here}; see {page}"


def knows(others: Mapping[str, str], page: str = PAGE) -> Callable[[K], K]:
    """Returns a decorator: its class answers these names with what they are here, and with the page to read. Its own
    names come first.
    """

    def mark(kind: K) -> K:
        for name, here in others.items():
            setattr(kind, name, OtherName(name, here, page))
        kind.__dir__ = _own_names  # type: ignore[assignment, method-assign]
        return kind

    return mark


def _own_names(this: object) -> Iterable[str]:
    """Lists the attributes for completion, without those of other libraries."""
    found: dict[str, object] = {}
    for base in reversed(type(this).__mro__):
        found |= vars(base)
    return [name for name in object.__dir__(this) if not isinstance(found.get(name), OtherName)]
