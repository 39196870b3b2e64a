"""The names that other clients (confluent-kafka, kafka-python, aiokafka) give to methods and classes, and what to use
here instead. They are attributes of our classes (``cy/other_name``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cy.other_name import PAGE, OtherName, own_names

K = TypeVar("K", bound=type)

_CONNECT: Final = "not needed: a client connects by itself; connect() does so now"
_CLOSE: Final = "close(), or the end of a with block"
_CONNECTED: Final = "connect(), which raises if no broker answers"
_REBALANCED: Final = "not needed: poll() takes over and gives up partitions"

OF_PRODUCER: Final[Mapping[str, str]] = {
    "produce": "send()",
    "produce_batch": "send_many()",
    "send_batch": "send_many()",
    "create_batch": "send_many()",
    "purge": "close(timeout=0)",
    "bootstrap_connected": _CONNECTED,
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
    "lag": "current_lag(partition)",
    "highwater": "end_offsets(), or current_lag()",
    "store_offsets": "commit(record), with enable_auto_commit=False",
    "consumer_group_metadata": "group_metadata()",
    "memberid": "group_metadata().member_id",
    "last_stable_offset": "end_offsets(), with isolation_level='read_committed'",
    "seek_to_committed": "seek(partition, offset), with the offset of committed()",
    **dict.fromkeys(("incremental_assign", "incremental_unassign"), _REBALANCED),
    "bootstrap_connected": _CONNECTED,
}
OF_ADMIN: Final[Mapping[str, str]] = {
    "start": _CONNECT,
    "create_topic": "create_topics(name)",
    "delete_topic": "delete_topics(name)",
    "describe_topic": "describe_topics(name)",
    "alter_configs": "incremental_alter_configs()",
    "delete_groups": "delete_consumer_groups()",
    "describe_groups": "describe_consumer_groups()",
    "list_group_offsets": "list_consumer_group_offsets()",
    **dict.fromkeys(("alter_group_offsets", "reset_group_offsets"), "alter_consumer_group_offsets()"),
    "delete_group_offsets": "delete_consumer_group_offsets()",
    "remove_group_members": "remove_members_from_consumer_group()",
    "list_partition_offsets": "list_offsets()",
    "describe_topic_partitions": "describe_topics()",
    "poll": "not needed: each method waits, and returns its results",
}
BLOCKING: Final[Mapping[str, str]] = {
    "__aenter__": "with, because this class blocks; the class of the same name in pyclient.aio takes async with",
}
ON_A_LOOP: Final[Mapping[str, str]] = {
    "__enter__": "async with; the class of the same name in pyclient blocks, and takes with",
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


def not_in_ms(timeout_ms: object) -> TypeError:
    """Returns the error for kafka-python's ``poll(timeout_ms=…)``."""
    return TypeError(
        f"poll() takes seconds: timeout=0.5, not timeout_ms={timeout_ms!r}; it returns a list of records, whose "
        f"by_partition() returns a dict; see {PAGE}"
    )


def knows(others: Mapping[str, str], page: str = PAGE) -> Callable[[K], K]:
    """Returns a class decorator. The use of one of these names raises an error that tells what to use here instead, and
    which page to read. ``dir`` lists the class's own names only.
    """

    def mark(kind: K) -> K:
        for name, here in others.items():
            setattr(kind, name, OtherName(name, here, page))
        kind.__dir__ = own_names  # type: ignore[assignment, method-assign]
        return kind

    return mark
