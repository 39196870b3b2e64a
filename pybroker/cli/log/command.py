"""``pybroker log``: dump, verify and strays read the files of logs without a broker; dirs asks brokers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import json_line, show, with_output, write
from pybroker.cli.common.verbs import Failure, Suggesting, complain, failures
from pybroker.cli.log.strays import strays

if TYPE_CHECKING:
    from pybroker.cli.common.records.segment_text import Contents
    from pybroker.log.inspection import Partition

VERIFIED = ("partition", "segments", "batches", "records", "bytes", "first", "end", "problems")
DUMPING = """
pybroker log dump DIR/broker-1/flights-0                  a line for each batch
pybroker log dump -V DIR/broker-1/flights-0/*.log         with keys and values
pybroker log dump -d group DIR/broker-1/__consumer_offsets-*
"""
DIRS = ("broker", "dir", "topic", "partition", "size", "lag", "moving")


@click.group(cls=Suggesting)
def log() -> None:
    """The files in which a broker keeps its logs."""


log.add_command(strays)


@log.command(examples=DUMPING)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="FILE|FOLDER…")
@click.option("-r", "--records", is_flag=True, help="Also a line for each record.")
@click.option("-V", "--values", is_flag=True, help="Also keys and values of records.")
@click.option("-d", "--decode", type=click.Choice(("group", "txn")), help="Kafka's own records, as JSON.")
@click.option(
    *("-o", "--output"),
    type=click.Choice(("text", "jsonl")),
    default="text",
    help="text: as DumpLogSegments; jsonl: a document per batch or record.",
)
def dump(paths: tuple[str, ...], records: bool, values: bool, decode: str | None, output: str) -> None:
    """Shows .log, .index, .timeindex, .txnindex, .snapshot files; of a folder all .log files.

    No broker is needed, and nothing is changed; one may run meanwhile.
    """
    from pybroker.cli.common.records.segment_text import Shown, documents, lines

    how = Shown(deep=records or values or decode is not None, contents=contents(values, decode))
    with explained():
        for path in files_of(paths):
            if output == "jsonl":
                for document in documents(path, deep=how.deep):
                    write(json_line(document))
            else:
                write(f"Dumping {path}\n")
                for line in lines(path, how):
                    write(line + "\n")


def contents(values: bool, decode: str | None) -> Contents | None:
    """Returns a function that makes text of keys and values."""
    from pybroker.cli.common.records.segment_text import texts

    if decode is None:
        return texts if values else None
    from pybroker.cli.common.records.internal_records import GROUP_TYPES, TRANSACTION_TYPES
    from pybroker.cli.common.records.internal_texts import decoder

    return decoder(GROUP_TYPES if decode == "group" else TRANSACTION_TYPES)


def files_of(paths: Iterable[str]) -> Iterator[str]:
    """Yields the files; for a folder, yields every .log file in it and below."""
    from pybroker.log.inspection import is_log, partitions

    for path in paths:
        if os.path.isfile(path):
            yield path
            continue
        found = [os.path.join(folder, name) for folder in partitions(path) for name in sorted(os.listdir(folder))]
        logs = [name for name in found if is_log(os.path.basename(name))]
        if not logs:
            raise Failure(f"{path}: there is no .log file in it: no log has records, or it is no data folder")
        yield from logs


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turns an OSError about a file into the verb's failure."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise Failure(f"{error.filename}: {error.strerror}") from error


@log.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False), metavar="FOLDER…")
@click.option("--quick", is_flag=True, help="Only batches and indexes, not each record.")
@with_output
def verify(output: str, folders: tuple[str, ...], quick: bool) -> int:
    """Checks logs: data folders, log dirs or partitions' folders. Exit code 1 where something is wrong.

    It checks CRCs, offsets and records, and that every index entry is right. No broker is needed, and nothing is
    changed. The table leaves out empty partitions.
    """
    from pybroker.log.inspection import inspect_partition, partitions

    with explained():
        found = [inspect_partition(each, deep=not quick) for folder in folders for each in partitions(folder)]
    if not found:
        raise Failure(f"{', '.join(folders)}: there is no log in it: is it a data folder?")
    some = [each for each in found if each.findings or any(segment.size for segment in each.segments)]
    show(output, VERIFIED, map(verified, some), documents=map(document, found))
    problems = [each for partition in found for each in partition.findings]
    for path, place, problem in problems:
        complain(f"{path}{': ' if place else ''}{place}: {problem}")
    return 1 if problems else 0


def verified(found: Partition) -> tuple[Any, ...]:
    segments = found.segments
    return (
        found.path,
        len(segments),
        sum(each.batches for each in segments),
        sum(each.records for each in segments),
        sum(each.size for each in segments),
        segments[0].base_offset if segments else None,
        segments[-1].next_offset if segments else None,
        len(found.findings),
    )


def document(found: Partition) -> dict[str, Any]:
    row = dict(zip(VERIFIED, verified(found), strict=True))
    return row | {"problems": [each._asdict() for each in found.findings]}


@log.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option("--broker", "brokers", type=click.IntRange(0), multiple=True, metavar="ID", help="Only this one.")
@click.option("--total", is_flag=True, help="A line for each log dir, with its free space.")
@on_cluster
@with_output
def dirs(cluster: Cluster, output: str, topics: tuple[str, ...], brokers: tuple[int, ...], total: bool) -> int:
    """Shows what lies in the log dirs of running brokers: bytes of each replica."""
    with cluster.admin() as admin:
        found = admin.describe_log_dirs(brokers or None)
    each_dir = [(broker, each) for broker, dirs in found.items() for each in dirs.values()]
    if total:
        totals = ((broker, each, sum(r.size for r in each.replicas.values())) for broker, each in each_dir)
        rows = [
            (broker, each.path, len(each.replicas), size, each.total_bytes, each.usable_bytes)
            for broker, each, size in totals
        ]
        show(output, ("broker", "dir", "replicas", "size", "volume", "free"), rows)
    else:
        replicas = [
            (broker, each.path, *tp, replica.size, replica.offset_lag, replica.is_future)
            for broker, each in each_dir
            for tp, replica in sorted(each.replicas.items())
            if not topics or tp.topic in topics
        ]
        show(output, DIRS, replicas)
    return failures("log dir", {path: error for dirs in found.values() for path, error in dirs.errors.items()})
