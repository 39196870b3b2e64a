"""``pybroker produce``: lines of stdin, or of files, become records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from cy.counted import counted
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.records.copying import with_room
from pybroker.cli.common.records.record_documents import MOST_PARTITIONS, Given, given
from pybroker.cli.common.records.record_format import unescaped
from pybroker.cli.common.verbs import Failure, Verb, complain, heard, rows, sentence
from pybroker.cli.common.words import Bytes, Raw, as_typed, is_text

if TYPE_CHECKING:
    from pyclient import Producer

EXAMPLES = """
pybroker produce flights < flights.csv
pybroker produce flights -K : -z zstd keyed.txt        lines are KEY:VALUE
pybroker produce flights -k UA --value hello -H source=cli
pybroker consume flights --from-beginning --to end -o jsonl | pybroker produce copy -i jsonl
"""
INPUTS = ("lines", "jsonl", "whole")


class Failures:
    """Failed deliveries: how many, and the error of the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first: BaseException | None = None

    def __call__(self, metadata: Any, error: BaseException | None) -> None:
        if error is not None:
            self.count += 1
            self.first = self.first or error


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("topic", shell_complete=TOPIC)
@click.argument("files", nargs=-1, type=click.File("rb"), metavar="[FILE]…")
@click.option("--value", "values", type=Bytes(), multiple=True, metavar="TEXT", help="A record, instead of stdin.")
@click.option("-k", "--key", type=Bytes(), metavar="TEXT", help="The key of all records.")
@click.option(
    *("-K", "--key-delimiter"), type=Raw(), metavar="TEXT", help="Lines are KEY, this (\\t: a tab), VALUE."
)
@click.option(
    *("-H", "--header", "headers"), type=Raw(), multiple=True, metavar="name=value", help="A header of all records."
)
@click.option(
    *("-p", "--partition"), type=click.IntRange(0, MOST_PARTITIONS), metavar="N", help="[by the key, or spread]"
)
@click.option("-z", "--compression", help="gzip, snappy, lz4, zstd.")
@click.option("-Z", "--null", is_flag=True, help="An empty value, or key, is null.")
@click.option(
    *("-i", "-o", "--input", "how"),
    type=click.Choice(INPUTS),
    default="lines",
    help="lines; jsonl: what `consume -o jsonl` writes; whole: each file is one record.",
)
@click.option("--spread", is_flag=True, help="With jsonl: partition by the key, not by the document.")
@on_cluster
def produce(
    cluster: Cluster,
    topic: str,
    files: tuple[IO[bytes], ...],
    values: tuple[bytes, ...],
    key: bytes | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str | None,
    null: bool,
    how: str,
    spread: bool,
) -> int:
    """Sends records to a topic; returns when the brokers have them.

    Without FILE or --value, it sends each line of stdin as it arrives. With jsonl, records go to the partitions that
    they name; a topic that is created on the way gets enough partitions.
    """
    if values and files:
        raise click.UsageError("use either --value or FILE")
    if key is not None and key_delimiter is not None:
        raise click.UsageError("use either --key or --key-delimiter")
    common = list(common_headers(headers))
    opened: tuple[IO[bytes], ...] = () if values else files or (stdin(),)
    records = parsed(values or pieces(opened, whole=how == "whole"), how, key_delimiter, null)
    if how == "jsonl":
        spared = (each._replace(partition=None) for each in records)
        records = spared if spread else with_room(cluster, topic, records, opened)
    failed = Failures()
    with heard("pyclient.producer"), cluster.producer(compression_type=compression) as producer:
        sent = send_all(producer, topic, records, Given(None, key, common, partition), failed)
        producer.flush()
    refuse_failed(failed, sent, topic)
    if sys.stderr.isatty():
        complain(f"{counted(sent, 'record')} sent to {topic}")
    return 0


def common_headers(given: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yields the headers of all records. Raises UsageError."""
    for name, value in rows(given, "--header"):
        if not is_text(name):
            raise click.UsageError(f"--header {name!a}: the name of a header must be UTF-8")
        yield name, as_typed(value)


def refuse_failed(failed: Failures, sent: int, topic: str) -> None:
    """Raises Failure if brokers have refused records."""
    if failed.first is not None:
        of = f"of {counted(sent, 'record')}"
        refused = counted(failed.count, f"{of} was", f"{of} were")
        raise Failure(f"{refused} refused: {sentence(failed.first, f'topic {topic}')}")


def stdin() -> IO[bytes]:
    if sys.stdin.isatty():
        complain("a record per line; Ctrl-D ends")
    return sys.stdin.buffer


def pieces(files: Iterable[IO[bytes]], *, whole: bool) -> Iterator[bytes]:
    """Yields the lines of files without their line ends, or whole files."""
    for file in files:
        if whole:
            yield file.read()
        else:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r")


def parsed(sources: Iterable[bytes], how: str, delimiter: str | None, null: bool) -> Iterator[Given]:
    """Yields the records of lines. Raises Failure for a line that is not a record."""
    mark = None if delimiter is None else unescaped(delimiter)
    for number, piece in enumerate(sources, 1):
        if how == "jsonl":
            if piece.strip():
                yield document(number, piece)
            continue
        key, found, value = (None, b"", piece) if mark is None else piece.partition(mark)
        if mark is not None and not found:
            raise unusable(number, f"{delimiter!r} is missing, which ends the key")
        yield Given(None if null and not value else value, None if null and not key else key)


def document(number: int, line: bytes) -> Given:
    try:
        return given(line)
    except ValueError as error:
        raise unusable(number, error) from error


def unusable(number: int, why: object) -> Failure:
    """Returns the failure for a line that is not a record. No later line is sent."""
    return Failure(f"line {number}: {why}{'; the lines before it were sent' if number > 1 else ''}")


def send_all(
    producer: Producer,
    topic: str,
    records: Iterable[Given],
    default: Given,
    failed: Failures,
    *,
    one_at_a_time: bool = False,
) -> int:
    """Sends records until the end or until one is refused; returns how many. ``one_at_a_time`` waits for each ack."""
    count = 0
    for record in records:
        producer.send(
            topic,
            record.value,
            default.key if record.key is None else record.key,
            partition=default.partition if record.partition is None else record.partition,
            timestamp=record.timestamp,
            headers=[*default.headers, *record.headers] or None,
            on_delivery=failed,
        )
        count += 1
        if one_at_a_time:
            producer.flush()
        if failed.count:
            break
    return count
