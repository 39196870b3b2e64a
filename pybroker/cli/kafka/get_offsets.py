"""``pybroker kafka-get-offsets``: takes the options of kafka-get-offsets.sh (GetOffsetShell)."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb, failures
from pybroker.cli.kafka.common.options import on_kafka
from pyclient import TopicPartition

SPECS = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|([0-9]*)-([0-9]*)))?")
NO_OFFSET = -1
Filter = Callable[[TopicPartition], bool]


@click.command("kafka-get-offsets", cls=Verb)
@click.option("--topic", metavar="REGEX", help="Of topics whose names match [all].")
@click.option("--partitions", metavar="0,1", help="Of these partitions [all].")
@click.option("--topic-partitions", metavar="t1:1,t2:0-3,t3,:5-", help="Only these, as expressions and ranges.")
@click.option("--time", "when", default="latest", metavar="WHEN", help=f"{', '.join(SPECS)}, or ms [latest].")
@click.option("--exclude-internal-topics", is_flag=True, help="Not of Kafka's own.")
@on_kafka(bootstrap="--broker-list")
def get_offsets(
    cluster: Cluster,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    when: str,
    exclude_internal_topics: bool,
) -> int:
    """kafka-get-offsets.sh: writes topic:partition:offset."""
    if topic_partitions is not None and (topic, partitions) != (None, None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    passes = by_rules(topic_partitions) if topic_partitions is not None else by_set(topic, partitions)
    spec = spec_of(when)
    with cluster.admin() as admin:
        described = admin.describe_topics(list(admin.list_topics(list_internal=not exclude_internal_topics)))
        every = [TopicPartition(name, each.partition) for name, row in described.items() for each in row.partitions]
        wanted = sorted(filter(passes, every), key=lambda tp: f"{tp.topic}-{tp.partition}")
        if not wanted:
            raise Failure("no partition matches: `pybroker topic list` shows the topics")
        found = admin.list_offsets(dict.fromkeys(wanted, spec), check=False)
    rows = [(*tp, found[tp].offset) for tp in wanted if tp in found and found[tp].offset != NO_OFFSET]
    write("".join(f"{name}:{number}:{offset}\n" for name, number, offset in rows))
    return failures("partition", found.errors)


def spec_of(text: str) -> int:
    """Returns Kafka's number for a place, or a time in ms. Raises UsageError."""
    from pyclient.admin import OffsetSpec

    try:
        return SPECS[text] if text in SPECS else OffsetSpec.of(int(text))
    except ValueError:
        raise click.UsageError(f"--time {text}: expected one of {', '.join(SPECS)}, or ms since 1970") from None


def expression(text: str | None) -> re.Pattern[str]:
    """Compiles an expression for whole names. Raises UsageError."""
    try:
        return re.compile(text or ".*")
    except re.error as error:
        raise click.UsageError(f"{text}: {error}") from error


def by_set(topic: str | None, partitions: str | None) -> Filter:
    """Returns a filter for --topic and --partitions. Raises UsageError."""
    named = expression(None if topic is None else topic.replace(",", "|"))
    words = [word for word in (partitions or "").split(",") if word]
    if not all(word.isdecimal() for word in words):
        raise click.UsageError(f"--partitions {partitions}: expected numbers, as in 0,1")
    numbers = set(map(int, words))
    return lambda tp: bool(named.fullmatch(tp.topic)) and (not numbers or tp.partition in numbers)


def by_rules(text: str) -> Filter:
    """Returns a filter for --topic-partitions. Raises UsageError."""
    rules = [rule(word) for word in text.split(",")]
    return lambda tp: any(each(tp) for each in rules)


def rule(text: str) -> Filter:
    """Reads ``topic:5``, ``topic:0-3`` (without 3), ``topic:5-``, ``topic:-3``, ``topic`` or ``:5``."""
    found = RULE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--topic-partitions {text}: expected topic:5, topic:0-3, topic:5-, topic:-3 or topic")
    named, (one, low, high) = expression(found[1]), found.groups()[1:]
    if one:
        return lambda tp: bool(named.fullmatch(tp.topic)) and tp.partition == int(one)
    first, end = int(low or 0), int(high) if high else 1 << 31
    return lambda tp: bool(named.fullmatch(tp.topic)) and first <= tp.partition < end
