"""Sets and lifts the throttle of a reassignment, for the replicas that take part in it (KIP-73).

The rate is a setting of each broker that takes part. A setting of the topic lists the throttled replicas. Sources of a
copy are throttled as leaders, new replicas as followers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.cli.common.output import write
from pyclient import TopicPartition

if TYPE_CHECKING:
    from pyclient import Admin

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
WARNING: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, "
    "to ensure the throttle is removed.\n"
)


class Move(NamedTuple):
    """The brokers from which a partition's new replicas are copied, and the brokers that get them."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


Moves = Mapping[TopicPartition, Move]


def moves(
    now: Mapping[TopicPartition, Sequence[int]],
    adding: Mapping[TopicPartition, Collection[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Returns the moves of the partitions whose replicas are ``wanted`` elsewhere. ``adding`` has replicas that another
    reassignment is adding now.
    """
    found = {}
    for tp, ids in wanted.items():
        sources = tuple(each for each in now.get(tp, ()) if each not in adding.get(tp, ()))
        found[tp] = Move(sources, tuple(each for each in ids if each not in sources))
    return found


def topic_settings(planned: Moves) -> dict[str, dict[str, str]]:
    """Returns each topic's lists of throttled replicas: ``partition:broker,…``."""
    found: dict[str, dict[str, str]] = {}
    for topic in sorted({tp.topic for tp in planned}):
        rows = sorted((tp.partition, move) for tp, move in planned.items() if tp.topic == topic)
        found[topic] = {
            key: ",".join(f"{partition}:{broker}" for partition, move in rows for broker in move[side])
            for side, key in enumerate(REPLICAS)
        }
    return found


def throttle(admin: Admin, planned: Moves, rate: int) -> None:
    """Sets the throttle, in bytes per second. Raises KafkaError."""
    from pyclient.admin import AlterConfigOp, ConfigResource, ResourceType

    write(WARNING)
    settings = topic_settings(planned)
    admin.incremental_alter_configs(
        {
            ConfigResource(ResourceType.TOPIC, topic): [AlterConfigOp(*row) for row in rows.items()]
            for topic, rows in settings.items()
        }
    )
    brokers = sorted({broker for move in planned.values() for side in move for broker in side})
    rates = [AlterConfigOp(key, str(rate)) for key in RATES]
    admin.incremental_alter_configs({ConfigResource(ResourceType.BROKER, str(each)): rates for each in brokers})
    write(f"The inter-broker throttle limit was set to {rate} B/s\n")


def lift(admin: Admin, topics: Iterable[str], replicas: Iterable[int]) -> None:
    """Removes the settings that ``throttle`` may have made, for these topics and at every live broker. Reports which of
    ``replicas`` are on absent brokers, because a broker keeps its settings while it is away. Raises KafkaError.
    """
    brokers = sorted(each.id for each in admin.describe_cluster().brokers)
    names = sorted(set(topics))
    write(f"Clearing broker-level throttles on {_named('broker', brokers)}\n")
    _unset(admin, "BROKER", brokers, RATES)
    if away := sorted(set(replicas).difference(brokers)):
        write(f"Warning: not cleared on {_named('broker', away)}, away now: run --verify again when back.\n")
    write(f"Clearing topic-level throttles on {_named('topic', names)}\n")
    _unset(admin, "TOPIC", names, REPLICAS)


def _named(kind: str, names: Sequence[object]) -> str:
    return f"{kind}{'s' * (len(names) != 1)} {','.join(map(str, names))}"


def _unset(admin: Admin, kind: str, names: Iterable[object], keys: Iterable[str]) -> None:
    from pyclient.admin import AlterConfigOp, AlterOp, ConfigResource, ResourceType

    ops = [AlterConfigOp(key, None, AlterOp.DELETE) for key in keys]
    admin.incremental_alter_configs({ConfigResource(ResourceType[kind], str(name)): ops for name in names})
