"""A place in a partition as users write it.

    earliest, beginning   the first record        latest, end   behind the last record
    42                    an offset               -100          so many records before the end
    @1700000000000        a time, ms since 1970   2026-11-22T01:00[+01:00]   local without a zone

No record is older than 1970, so an earlier date means 1970. The protocol gives negative times other meanings.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cy.counted import counted
from pyclient import TopicPartition

if TYPE_CHECKING:
    from pyclient import Admin

EARLIEST, LATEST, OFFSET, FROM_END, TIME = "earliest", "latest", "offset", "from end", "time"
WORDS = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}


class Spot(NamedTuple):
    """A place: ``number`` is an offset, a distance or ms."""

    kind: str
    number: int = 0


class SpotType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option's value that is a place."""

    name = "place"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Spot:
        if isinstance(value, Spot):
            return value
        try:
            return parse(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a place: use earliest, latest, 42, -100 (from the end), @MS or 2026-11-22T01:00",
                parameter,
                context,
            )


def parse(text: str) -> Spot:
    """Parses a place. Raises ValueError."""
    if text in WORDS:
        return Spot(WORDS[text])
    if text.startswith("@"):
        return Spot(TIME, _not_negative(int(text[1:])))
    if text.startswith("-"):
        return Spot(FROM_END, int(text[1:]))
    if text.isdecimal():
        return Spot(OFFSET, int(text))
    return Spot(TIME, milliseconds(text))


def milliseconds(text: str, zone: tzinfo | None = None) -> int:
    """Returns an ISO date and time in milliseconds, at least 0. Without a zone it is in ``zone``, or local. Raises
    ValueError.
    """
    date = datetime.fromisoformat(text)
    if date.tzinfo is None and zone is not None:
        date = date.replace(tzinfo=zone)
    return max(round(date.timestamp() * 1000), 0)


def _not_negative(ms: int) -> int:
    if ms < 0:
        raise ValueError(f"a time in ms since 1970 must not be below 0, as {ms} is")
    return ms


def partitions_of(admin: Admin, topics: Iterable[str], chosen: Iterable[int] = ()) -> list[TopicPartition]:
    """Returns all partitions of topics, or the chosen ones of each. Raises UnknownTopicOrPartition."""
    from pyclient.protocol.errors import UnknownTopicOrPartition

    wanted = set(chosen)
    found: list[TopicPartition] = []
    for name, topic in admin.describe_topics(topics).items():
        numbers = {each.partition for each in topic.partitions}
        if missing := sorted(wanted - numbers):
            there = f"topic {name} has {counted(len(numbers), 'partition')}"
            raise UnknownTopicOrPartition(f"{there}: there is no partition {missing[0]}")
        found += [TopicPartition(name, number) for number in sorted(wanted or numbers)]
    return found


def chosen(admin: Admin, text: str) -> list[TopicPartition]:
    """Returns the partitions of ``TOPIC`` or ``TOPIC:0,1``. Raises UsageError, UnknownTopicOrPartition."""
    name, _, numbers = text.partition(":")
    if numbers and not all(each.isdecimal() for each in numbers.split(",")):
        raise click.UsageError(f"{text}: partitions follow the colon, as in flights:0,1")
    return partitions_of(admin, [name], [int(each) for each in numbers.split(",") if each])


def edges(
    admin: Admin, partitions: list[TopicPartition], *, latest: bool, isolation: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    """Returns the first offsets, or the end offsets for readers of this isolation level."""
    from pyclient.admin import OffsetSpec

    specs = dict.fromkeys(partitions, OffsetSpec.LATEST if latest else OffsetSpec.EARLIEST)
    return {tp: row.offset for tp, row in admin.list_offsets(specs, isolation_level=isolation).items()}


def offsets_at(
    admin: Admin, partitions: list[TopicPartition], spot: Spot, isolation: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    """Returns a place's offset in each partition, within the range for readers of this isolation level. A time after
    the last record means the end.
    """
    if not partitions:
        return {}
    first = edges(admin, partitions, latest=False)
    last = edges(admin, partitions, latest=True, isolation=isolation)
    wanted = {
        EARLIEST: lambda tp: first[tp],
        LATEST: lambda tp: last[tp],
        OFFSET: lambda tp: spot.number,
        FROM_END: lambda tp: last[tp] - spot.number,
    }
    if spot.kind == TIME:
        times = admin.list_offsets(dict.fromkeys(partitions, spot.number))
        found = {tp: row.offset if row.offset >= 0 else last[tp] for tp, row in times.items()}
    else:
        found = {tp: wanted[spot.kind](tp) for tp in partitions}
    return {tp: min(max(found[tp], first[tp]), last[tp]) for tp in partitions}
