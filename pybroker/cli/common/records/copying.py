"""Checks a copy of documents, which name the partitions that they come from. Before the first document is sent, the
target topic must have these partitions, so that no copy is half written.

The target needs as many partitions as the source topic, if this cluster has that topic. Otherwise all documents of a
file are read to find the number. For a pipe from another cluster the number is unknown, so a missing target topic is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

from cy.counted import counted
from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.records.record_documents import Given, given
from pybroker.cli.common.verbs import Failure, complain

if TYPE_CHECKING:
    from pyclient import Admin

SPREAD = "use --spread to ignore the partitions that the records name"
AUTO_CREATE = "auto.create.topics.enable"


def with_room(cluster: Cluster, topic: str, records: Iterable[Given], files: Iterable[IO[bytes]]) -> Iterator[Given]:
    """Yields the records if ``topic`` has the partitions that they name. A missing topic is created with enough
    partitions, if brokers create topics. The records are read from ``files``. Raises Failure before it yields a record
    that names a partition.
    """
    count = None
    for number, record in enumerate(records):
        if record.partition is not None:
            if count is None:
                with cluster.admin() as admin:
                    count = partitions_with_room(admin, topic, record, list(files))
            if record.partition >= count:
                named = f"record {number + 1} names partition {record.partition}, and topic {topic} has {count}"
                sent = counted(number, "record before it was", "records before it were")
                raise Failure(f"{named}: {sent} sent: {SPREAD}")
        yield record


def partitions_with_room(admin: Admin, topic: str, first: Given, files: list[IO[bytes]]) -> int:
    """Returns the number of the topic's partitions, if they are enough for the files. Raises Failure."""
    names = [topic] if first.source is None else [topic, first.source]
    there = {name: len(each.partitions) for name, each in admin.describe_topics(names, check=False).items()}
    needed = there.get(first.source or "")
    if needed is None or first.source == topic:
        needed = named_in(files)
    if topic not in there:
        if needed is None:
            had = f"as many as {first.source or 'their topic'} had"
            make = f"create it with {had}: `pybroker topic create {topic} -p N`"
            raise Failure(f"topic {topic} does not exist, and the records name partitions: {make}; or {SPREAD}")
        return created(admin, topic, needed)
    if needed is not None and needed > there[topic]:
        more = f"`pybroker topic alter {topic} -p {needed}` adds some; {SPREAD}"
        has = f"topic {topic} has {counted(there[topic], 'partition')}, and the records need {needed}"
        raise Failure(f"{has}: nothing was written: {more}")
    return there[topic]


def named_in(files: list[IO[bytes]]) -> int | None:
    """Returns how many partitions the unread documents need; None if the files cannot be read ahead."""
    if not all(file.seekable() for file in files):
        return None
    most = 0
    for file in files:
        here = file.tell()
        file.seek(0)
        for line in file:
            try:
                partition = given(line).partition if line.strip() else None
            except ValueError:
                continue  # an invalid line is reported, with its number, when it is its turn to be sent
            most = max(most, 0 if partition is None else partition + 1)
        file.seek(here)
    return most


def created(admin: Admin, topic: str, partitions: int) -> int:
    """Creates the topic with enough partitions, if sending to it would create it anyway. Raises Failure."""
    if not creates_topics(admin):
        make = f"`pybroker topic create {topic} -p {partitions}` makes it"
        raise Failure(f"topic {topic} does not exist, and this cluster does not create topics on first use: {make}")
    admin.create_topics(topic, num_partitions=partitions)
    complain(f"topic {topic} was created with {counted(partitions, 'partition')}, as the records need")
    return partitions


def creates_topics(admin: Admin) -> bool:
    """Says whether brokers create a missing topic when a client writes to it."""
    from pyclient.admin import ConfigResource, ResourceType

    broker = ConfigResource(ResourceType.BROKER, str(admin.describe_cluster().controller_id))
    entry = admin.describe_configs(broker, keys=[AUTO_CREATE])[broker].get(AUTO_CREATE)
    return entry is None or entry.value != "false"
