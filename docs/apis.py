"""The page of APIs, made from the table of those that are served and from ``MISSING``.

``python -m docs.apis > docs/apis.md`` makes it.
"""

from __future__ import annotations

import re
import sys
from typing import Final, NamedTuple

from pybroker.handlers import ROWS, Row

_HEAD = """# APIs

This table lists the APIs and versions that the broker serves. It advertises no others. Flexible versions, tagged
fields and topic ids are served wherever a version has them. `python -m docs.apis > docs/apis.md`
makes this page from `pybroker/handlers/__init__.py`.

*Needs* names the rights that a broker with an authorizer asks for. They are rights to the cluster, or to each topic,
group and transactional id that the request names. As in Kafka, not every request needs all of them.

| Key | API | Versions | Needs | What it does |
|---|---|---|---|---|
"""

_MISSING_HEAD = """
## What is missing

A broker of Kafka 4.4 has {count} more APIs. Here ApiVersions does not list them, so clients know before they ask:
Java's raise `UnsupportedVersionException`. If a client sends such a request anyway, the broker closes the connection,
as Kafka does with an API that it does not know. What only Kafka's controllers serve is not in this table.

| Keys | APIs | Why they are missing | What a client notices |
|---|---|---|---|
"""


class Missing(NamedTuple):
    """APIs of Kafka 4.4's brokers that are not served for one reason."""

    apis: dict[int, str]
    why: str
    """A clause about the broker."""
    noticed: str
    """What a client does without them."""


MISSING: Final = (
    Missing(
        {55: "DescribeQuorum", 64: "UnregisterBroker", 80: "AddRaftVoter", 81: "RemoveRaftVoter",
         94: "UnregisterController"},
        "metadata are in a coordination store, so there is no KRaft quorum; a broker that has ended needs no removal",
        "`kafka-metadata-quorum` fails with `UnsupportedVersionException`, and `kafka-cluster unregister` says that "
        "this is not supported; `pybroker cluster` shows controller and brokers",
    ),
    Missing(
        {71: "GetTelemetrySubscriptions", 72: "PushTelemetry"},
        "no plug-in takes the metrics of clients (KIP-714); Kafka lists them only with one",
        "nothing: Java clients and librdkafka send no metrics",
    ),
    Missing(
        {76: "ShareGroupHeartbeat", 77: "ShareGroupDescribe", 78: "ShareFetch", 79: "ShareAcknowledge",
         90: "DescribeShareGroupOffsets", 91: "AlterShareGroupOffsets", 92: "DeleteShareGroupOffsets"},
        "there are no share groups (KIP-932)",
        "`poll` of a share consumer fails with `UnsupportedVersionException`, and `kafka-console-share-consumer` "
        "shows no record; other groups work",
    ),
    Missing(
        {83: "InitializeShareGroupState", 84: "ReadShareGroupState", 85: "WriteShareGroupState",
         86: "DeleteShareGroupState", 87: "ReadShareGroupStateSummary"},
        "there are no share groups; brokers keep the groups' state by them",
        "nothing: clients do not send them",
    ),
    Missing(
        {88: "StreamsGroupHeartbeat", 89: "StreamsGroupDescribe", 93: "StreamsGroupTopologyDescriptionUpdate"},
        "there are no streams groups (KIP-1071)",
        "Kafka Streams works with `group.protocol=classic`, its default; with `group.protocol=streams` it fails with "
        "`UnsupportedVersionException`",
    ),
)  # fmt: skip


def _purpose(row: Row) -> str:
    """The first sentence of the handler's module, without the name of the API."""
    module = sys.modules[row.handle.__module__]
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    text = " ".join(first.split())
    sentence = re.sub(r"^v[\d-]+\. ", "", text.partition(": ")[2] or text)
    return sentence.replace("|", "\\|").replace("``", "`")


def _versions(row: Row) -> str:
    low, high, advertised = row.api.min_version, row.api.max_version, row.api.advertised_min
    served = f"{low}–{high}" if low < high else f"{high}"
    return f"{served} (advertised from {advertised})" if advertised < low else served


def _needs(row: Row) -> str:
    """The rights, by kind of resource; of those to the cluster that are asked for the whole request one is enough."""
    texts = [f"{right.operation.name} {right.kind.name.lower().replace('_', ' ')}" for right in row.needs.rights]
    return (", " if row.needs.refuse is None else " or ").join(texts) or "–"


def page() -> str:
    """The page in Markdown."""
    rows = [row for row in ROWS if not row.between_brokers]
    lines = [f"| {row.api.key} | {row.api.name} | {_versions(row)} | {_needs(row)} | {_purpose(row)} |" for row in rows]
    return _HEAD + "\n".join(lines) + "\n" + _missing()


def _missing() -> str:
    lines = [
        f"| {', '.join(map(str, each.apis))} | {', '.join(each.apis.values())} | {each.why} | {each.noticed} |"
        for each in MISSING
    ]
    return _MISSING_HEAD.format(count=sum(len(each.apis) for each in MISSING)) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
