"""Measures creating, describing and deleting topics."""

from __future__ import annotations

from conformance.bench.scale.spent import Rows, spent
from conformance.bench.scale.wide import Wide, check
from harness.protocol.kinds import Resource

#: The most topics of one partition that the suite creates.
SINGLES = 1_000


def create(wide: Wide) -> Rows:
    """Creates this suite's topics by one request each, and waits until the broker serves them."""

    def work() -> None:
        for name, count in wide.topics.items():
            wide.create({name: count})
        wide.wait_served(wide.topics)

    yield "create", spent(wide.broker, wide.partitions, work)


def delete(wide: Wide) -> Rows:
    """Deletes all topics of this suite by one request."""
    yield "delete", spent(wide.broker, wide.partitions, lambda: wide.delete(wide.topics))


def singles(wide: Wide) -> Rows:
    """Creates and deletes many topics of one partition by one request each. In between, describes all topics' configs.
    """
    names = {f"single-{number}": 1 for number in range(min(SINGLES, wide.partitions))}

    def make() -> None:
        wide.create(names)
        wide.wait_served(names)

    yield "create_singles", spent(wide.broker, len(names), make)
    wanted = [
        {"resource_type": Resource.TOPIC, "resource_name": name, "configuration_keys": None}
        for name in (*names, *wide.topics)
    ]
    fields = {"resources": wanted, "include_synonyms": False, "include_documentation": False}
    told, reply = wide.ask("DescribeConfigs", 4, fields, len(names))
    check(row.error_code for row in reply.results)
    yield "describe_configs", told
    yield "delete_singles", spent(wide.broker, len(names), lambda: wide.delete(names))


def metadata(wide: Wide) -> Rows:
    """Asks for the metadata of all topics."""
    found, reply = wide.ask("Metadata", 12, {"topics": None, "allow_auto_topic_creation": False})
    check(row.error_code for topic in reply.topics for row in (topic, *topic.partitions))
    yield "metadata", found


def log_dirs(wide: Wide) -> Rows:
    """Asks DescribeLogDirs for everything."""
    found, reply = wide.ask("DescribeLogDirs", 4, {"topics": None})
    check([reply.error_code, *(row.error_code for row in reply.results)])
    yield "log_dirs", found
