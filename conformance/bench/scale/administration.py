"""Topics made, described and deleted."""

from __future__ import annotations

from conformance.bench.scale.spent import Rows, spent
from conformance.bench.scale.wide import Wide, check
from harness.kinds import Resource

#: Topics of one partition: more are not made.
SINGLES = 1_000


def create(wide: Wide) -> Rows:
    """The topics of this suite, one request each, until they are served."""

    def work() -> None:
        for name, count in wide.topics.items():
            wide.create({name: count})
        wide.wait_served(wide.topics)

    yield "create", spent(wide.broker, wide.partitions, work)


def delete(wide: Wide) -> Rows:
    """All topics of this suite, by one request."""
    yield "delete", spent(wide.broker, wide.partitions, lambda: wide.delete(wide.topics))


def singles(wide: Wide) -> Rows:
    """As many topics of one partition, created and deleted by one request each; while they are there, the
    configuration of all topics."""
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
    """Metadata of all topics."""
    found, reply = wide.ask("Metadata", 12, {"topics": None, "allow_auto_topic_creation": False})
    check(row.error_code for topic in reply.topics for row in (topic, *topic.partitions))
    yield "metadata", found


def log_dirs(wide: Wide) -> Rows:
    """DescribeLogDirs of everything."""
    found, reply = wide.ask("DescribeLogDirs", 4, {"topics": None})
    check([reply.error_code, *(row.error_code for row in reply.results)])
    yield "log_dirs", found
