"""``pybroker kafka-console-consumer``: takes the options of kafka-console-consumer.sh."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster, properties
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.places import EARLIEST, LATEST, OFFSET, Spot, offsets_at, partitions_of
from pybroker.cli.common.verbs import Verb, misuse
from pybroker.cli.consume import Tally, assign, show_records
from pybroker.cli.kafka.common.message_formatter import formatter
from pybroker.cli.kafka.common.options import on_kafka

if TYPE_CHECKING:
    from pyclient import Consumer


@click.command("kafka-console-consumer", cls=Verb)
@click.option("--topic", metavar="TOPIC", help="The topic to read.", shell_complete=TOPIC)
@click.option("--include", "--whitelist", metavar="REGEX", help="All topics whose names match.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition, without a group.")
@click.option("--offset", metavar="OFFSET", help="Where to begin in --partition: a number, earliest, latest [latest].")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record if the group has no offset.")
@click.option("--max-messages", type=click.IntRange(0), metavar="N", help="Stop after so many.")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="Stop if no record comes for this long.")
@click.option("--group", metavar="GROUP", help="The consumer group [a new one].", shell_complete=GROUP)
@click.option("--isolation-level", type=click.Choice(("read_uncommitted", "read_committed")))
@click.option("--formatter", "name", metavar="CLASS", help="One of Kafka's [DefaultMessageFormatter].")
@click.option(
    *("--formatter-property", "--property", "given"),
    multiple=True,
    metavar="key=value",
    help="print.key, print.timestamp, key.separator, null.literal …",
)
@click.option("--formatter-config", metavar="FILE", help="Such properties in a file.")
@click.option("--key-deserializer", metavar="CLASS", help="One of Kafka's for simple types.")
@click.option("--value-deserializer", metavar="CLASS", help="One of Kafka's for simple types.")
@click.option("--skip-message-on-error", is_flag=True, help="Taken and ignored.")
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@on_kafka(config="--consumer.config", setting="--consumer-property")
def console_consumer(
    cluster: Cluster,
    topic: str | None,
    include: str | None,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    group: str | None,
    isolation_level: str | None,
    skip_message_on_error: bool,
    enable_systest_events: bool,
    **formatting: Any,
) -> int:
    """kafka-console-consumer.sh: writes the records of a topic to stdout."""
    if (topic is None) == (include is None):
        raise click.UsageError("use exactly one of --topic and --include")
    if offset is not None and (partition is None or from_beginning):
        raise click.UsageError("--offset needs --partition, and cannot be used with --from-beginning")
    if partition is not None and (group is not None or topic is None):
        raise click.UsageError("--partition needs --topic, and cannot be used with --group")
    start = place(offset, from_beginning)
    line = writer(**formatting)
    names = re.compile(include) if include is not None else str(topic)
    with cluster.consumer(
        group_id=group or f"console-consumer-{random.randrange(100_000)}",
        enable_auto_commit=None if group else "false",
        client_id="console-consumer",
        auto_offset_reset=EARLIEST if from_beginning else LATEST,
        isolation_level=isolation_level,
    ) as consumer:
        begin(consumer, cluster, names, partition, start, group)
        limit = None if timeout_ms is None else timeout_ms / 1000
        tally = Tally()
        try:
            if max_messages != 0:
                show_records(consumer, line, None, max_messages, limit, tally=tally)
        finally:
            print(f"Processed a total of {tally.written} messages", file=sys.stderr)
    return 0


def place(offset: str | None, from_beginning: bool) -> Spot:
    """Returns where to begin. Raises UsageError."""
    if offset is None or offset in (EARLIEST, LATEST):
        return Spot(EARLIEST if from_beginning else offset or LATEST)
    if not offset.isdecimal():
        raise click.UsageError(f"--offset {offset}: expected a number, earliest or latest")
    return Spot(OFFSET, int(offset))


def begin(
    consumer: Consumer,
    cluster: Cluster,
    names: str | re.Pattern[str],
    partition: int | None,
    start: Spot,
    group: str | None,
) -> None:
    """Subscribes. Without --group, an existing topic is read at once, without joining a group."""
    if isinstance(names, re.Pattern):
        consumer.subscribe(names)
        return
    with cluster.admin() as admin:
        known = names in admin.list_topics(list_internal=True)
        if partition is None and (group is not None or not known):
            consumer.subscribe([names])
            return
        numbers = () if partition is None else (partition,)
        assign(consumer, offsets_at(admin, partitions_of(admin, [names], numbers), start), {})


def writer(
    name: str | None,
    given: tuple[str, ...],
    formatter_config: str | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
) -> Any:
    """Returns a function that writes a record. Raises UsageError."""
    known: Mapping[str, str] = properties(formatter_config, given, "--formatter-property")
    own = {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer}
    with misuse("--formatter" if name else "--formatter-property"):
        return formatter(name, {**{key: value for key, value in own.items() if value is not None}, **known})
