"""``pybroker consume``: shows records, alone or as a member of a group."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.output import csv_line, json_line
from pybroker.cli.common.places import EARLIEST, LATEST, Spot, SpotType, offsets_at, partitions_of
from pybroker.cli.common.records.record_documents import document, shown
from pybroker.cli.common.records.record_format import compiled
from pybroker.cli.common.tables import Growing
from pybroker.cli.common.verbs import Verb, complain, misuse
from pybroker.cli.common.words import Bytes
from pyclient import TopicPartition

if TYPE_CHECKING:
    from cy.consume.records import Record
    from pyclient import Consumer

EXAMPLES = r"""
pybroker consume flights                              what comes from now on
pybroker consume flights --from-beginning --to end    all there is
pybroker consume flights --from -10 -f '%t[%p] %o %k %s\n'
pybroker consume flights --from 2026-11-22T01:00 --grep JFK -n 5 -o jsonl
pybroker consume flights -g readers --from earliest   as a member of a group
"""
POLL_S = 0.2
MOST = 500
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
NEW_ONLY = "what comes from now on; --from-beginning shows what is there already; Ctrl-C ends"
NEW_OF_GROUP = "from where the group has committed, else what comes from now on; Ctrl-C ends"
Ends = dict[TopicPartition, int]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("--from", "start", type=SpotType(), metavar="PLACE", help="Begin here [latest].")
@click.option("--from-beginning", is_flag=True, help="The same as --from earliest.")
@click.option("--to", "stop", type=SpotType(), metavar="PLACE", help="Stop here; `end`: the current end.")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Stop after this many records.")
@click.option("--timeout", type=click.FloatRange(0), metavar="S", help="Stop if no record comes for this long.")
@click.option("-p", "--partition", "numbers", type=click.IntRange(0), multiple=True, metavar="N", help="Only this one.")
@click.option("-g", "--group", metavar="GROUP", help="As a member of a group, which commits.", shell_complete=GROUP)
@click.option("-k", "--key", type=Bytes(), metavar="TEXT", help="Only records of this key.")
@click.option("--grep", metavar="REGEX", help="Only records with this in the value (RE2).")
@click.option("--committed", is_flag=True, help="No records of open or aborted transactions.")
@click.option("-f", "--format", "pattern", metavar="FORMAT", help=r"kcat's: '%t[%p] %o %T %k %s %h\n'.")
@click.option("-Z", "--null", default="", metavar="TEXT", help="What -f writes for null.")
@click.option(
    *("-o", "--output"),
    type=click.Choice(("value", "json", "jsonl", "csv", "table", "name")),
    default="value",
    help="json and jsonl: a document per line; name: topic[partition]@offset [value].",
)
@on_cluster
def consume(
    cluster: Cluster,
    topics: tuple[str, ...],
    start: Spot | None,
    from_beginning: bool,
    stop: Spot | None,
    count: int | None,
    timeout: float | None,
    numbers: tuple[int, ...],
    group: str | None,
    key: bytes | None,
    grep: str | None,
    committed: bool,
    pattern: str | None,
    null: str,
    output: str,
) -> int:
    """Writes records to stdout until --count, --to, --timeout or a signal, after which it exits with 130 or 143.

    PLACE: earliest, latest, an offset, -100 (from the end), @MS or 2026-11-22T01:00.
    """
    if from_beginning and start is not None:
        raise click.UsageError("use either --from or --from-beginning")
    begin = Spot(EARLIEST) if from_beginning else start or Spot(LATEST)
    if group is not None and numbers:
        raise click.UsageError("--group distributes the partitions: --partition cannot be used with it")
    if group is not None and begin.kind not in (EARLIEST, LATEST):
        raise click.UsageError("a group begins at its committed offsets: it accepts only --from earliest or latest")
    header, line = writer(output, pattern, null, topics)
    isolation = "read_committed" if committed else None
    seen = isolation or "read_uncommitted"
    with cluster.admin() as admin:
        partitions = partitions_of(admin, topics, numbers)
        starts = {} if group is not None else offsets_at(admin, partitions, begin, seen)
        ends = {} if stop is None else offsets_at(admin, partitions, stop, seen)
    with cluster.consumer(
        group_id=group,
        isolation_level=isolation,
        auto_offset_reset=LATEST if begin.kind == LATEST else EARLIEST,
        allow_auto_create_topics="false",
    ) as consumer:
        if group is not None:
            consumer.subscribe(topics)
        else:
            assign(consumer, starts, ends)
        if begin.kind == LATEST and stop is None and sys.stderr.isatty():
            complain(NEW_ONLY if group is None else NEW_OF_GROUP)
        sys.stdout.buffer.write(header)
        show_records(consumer, line, ends if stop is not None else None, count, timeout, chosen_by(key, grep))
    return 0


def assign(consumer: Consumer, starts: Ends, ends: Ends) -> None:
    """Assigns the partitions that have records before the end."""
    wanted = {tp: offset for tp, offset in starts.items() if tp not in ends or offset < ends[tp]}
    consumer.assign(wanted)
    for tp, offset in wanted.items():
        consumer.seek(tp, offset)


@dataclass
class Tally:
    """Counts the records that were written."""

    written: int = 0


def show_records(
    consumer: Consumer,
    line: Callable[[Record], bytes],
    ends: Ends | None = None,
    count: int | None = None,
    timeout: float | None = None,
    chosen: Callable[[Record], bool] | None = None,
    tally: Tally | None = None,
) -> None:
    """Writes records to stdout, until ``ends``, ``count`` records, or ``timeout`` seconds without a record.

    ``chosen`` returns True for records to write; ``tally`` counts them. A signal raises KeyboardInterrupt, even within
    a batch. Then only the records of the batch that the reader has taken are written, and no group commits the batch.
    """
    out = sys.stdout.buffer
    tally = Tally() if tally is None else tally
    last = time.monotonic()
    while not (ends is not None and is_read(consumer, ends)):
        left = MOST if count is None else count - tally.written
        # a group commits all polled records, so poll only those that are shown
        limit = MOST if chosen is not None and not consumer.subscription() else min(MOST, left)
        records = consumer.poll(POLL_S, limit)
        wanted = [each for each in records if ends is None or before(each, ends)]
        shown = wanted if chosen is None else list(filter(chosen, wanted))[:left]
        lines = b"".join(map(line, shown))
        tally.written += len(shown)  # before the write: a signal may come as soon as the reader has the records
        try:
            out.write(lines)
            out.flush()
        except OSError:
            tally.written -= len(shown)
            raise
        stop_at(consumer, ends or {})
        now = time.monotonic()
        last = now if len(records) else last
        if tally.written == count or (timeout is not None and now - last >= timeout):
            break


def chosen_by(key: bytes | None, grep: str | None) -> Callable[[Record], bool] | None:
    """Returns a filter for records with this key and this expression (RE2) in the value. Raises UsageError."""
    if key is None and grep is None:
        return None
    found = None if grep is None else searching(grep)

    def is_chosen(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        return found is None or found(record.value or b"") is not None

    return is_chosen


def searching(expression: str) -> Callable[[bytes], object]:
    """Returns a search by RE2. It takes time linear in the value, so that no expression can do harm."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        search: Callable[[bytes], object] = re2.compile(expression.encode(), options).search
    except re2.error as error:
        why = error.args[0] if error.args else b""
        told = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise click.UsageError(f"--grep {expression}: {told}") from error
    return search


def stop_at(consumer: Consumer, ends: Ends) -> None:
    """Seeks partitions that were read beyond their end back to it, and pauses them, so that no later offset is
    committed.
    """
    for tp, position in consumer.positions().items() if ends else ():
        if tp in ends and position.offset > ends[tp]:
            consumer.seek(tp, ends[tp])
            consumer.pause([tp])


def before(record: Record, ends: Ends) -> bool:
    """Says whether the record lies before the end offset of its partition."""
    end = ends.get(TopicPartition(record.topic, record.partition))
    return end is None or record.offset < end


def is_read(consumer: Consumer, ends: Ends) -> bool:
    """Says whether every assigned partition was read to its end; in a group, only once it has partitions."""
    assigned = consumer.assignment()
    if not assigned:
        return not consumer.subscription()
    positions = consumer.positions()
    return all(tp in positions and positions[tp].offset >= ends.get(tp, 0) for tp in assigned)


def writer(
    output: str, pattern: str | None, null: str, topics: Iterable[str]
) -> tuple[bytes, Callable[[Record], bytes]]:
    """Returns the head of the output, and the function that writes a record."""
    if pattern is not None:
        with misuse(f"-f {pattern}"):
            return b"", compiled(pattern, null.encode())
    if output in ("json", "jsonl"):
        return b"", lambda record: json_line(document(record)).encode()
    if output == "csv":
        return csv_line(COLUMNS).encode(), lambda record: csv_line(cells(record)).encode()
    if output == "table":
        table = Growing(COLUMNS, (max(topics, key=len), 0, 0, round(time.time() * 1000), "", ""))
        return table.line(table.heads).encode(), lambda record: table.line(cells(record)).encode()
    return b"", compiled("%t[%p]@%o\\n" if output == "name" else "%s\\n", null.encode())


def cells(record: Record) -> Sequence[object]:
    """Returns a record's row; bytes that are not text become base64."""
    both = (shown(record.key), shown(record.value))
    key, value = (each["base64"] if isinstance(each, dict) else each for each in both)
    return record.topic, record.partition, record.offset, record.timestamp, key, value
