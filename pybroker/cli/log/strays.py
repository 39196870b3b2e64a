"""``pybroker log strays``: list, adopt, remove logs that belong to no topic, in the folders of brokers."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import planned
from pybroker.cli.common.verbs import Failure, Suggesting

if TYPE_CHECKING:
    from pybroker.cluster.metadata.image import TopicImage
    from pybroker.log.removal.strays import Note
    from pybroker.store.stores import StoreOptions

COLUMNS = ("topic", "partition", "id", "broker", "first", "end", "bytes", "since", "why", "folder")
PLAN = ("topic", "partition", "id", "leader", "replicas", "epoch", "end")
MARK = "meta.properties"
EXAMPLES = """
pybroker log strays list --data-dir DIR                    all, also of brokers that run
pybroker log strays adopt orders --data-dir DIR            a plan: which broker would lead what
pybroker log strays adopt orders --data-dir DIR --execute  with all brokers stopped
pybroker log strays adopt orders --server-properties FILE  the metadata are in ZooKeeper
pybroker log strays remove DIR/broker-1/orders-0.*-stray --execute
"""

DELETED = (
    "if '{}' was deleted while a log dir was offline, do not adopt it: that would bring its records back. "
    "`pybroker log strays remove` removes them"
)
"""Shown with a plan. The metadata no longer tell a deleted topic from a lost one once the deletion is complete."""

data_dir = click.option("--data-dir", metavar="DIR", help="The folder of the brokers [the user's data folder].")
log_dirs = click.option("--log-dir", "log_dirs", multiple=True, metavar="DIR", help="A log dir elsewhere (log.dirs).")


class Found(NamedTuple):
    """A stray on this machine."""

    topic: str
    partition: int
    id: str
    broker: int
    first: int
    end: int
    bytes: int
    since: str
    why: str
    folder: str


@click.group(cls=Suggesting)
def strays() -> None:
    """Logs whose topic is missing from the metadata: a broker keeps them until you adopt or remove them."""


@strays.command("list", examples=EXAMPLES)
@data_dir
@log_dirs
@with_output
def list_strays(output: str, data_dir: str | None, log_dirs: tuple[str, ...]) -> None:
    """Shows the strays in the folders of brokers; nothing is changed, and brokers may run."""
    show(output, COLUMNS, strays_in(folders_of(data_dir, log_dirs)), none="there are no strays")


def root_of(data_dir: str | None) -> str:
    from pybroker.data_folder import plan

    return str(plan(data_dir, 1, ()).root)


def folders_of(data_dir: str | None, log_dirs: Iterable[str]) -> Iterator[str]:
    """Yields the log dirs below the data folder, and the named ones."""
    root = root_of(data_dir)
    below = sorted(entry.path for entry in os.scandir(root) if entry.is_dir()) if os.path.isdir(root) else []
    found = [each for each in (root, *below) if os.path.exists(os.path.join(each, MARK))]
    for each in (*found, *log_dirs):
        if not os.path.exists(os.path.join(each, MARK)):
            raise Failure(f"{each} is no log dir: it has no {MARK}")
        yield each


def strays_in(log_dirs: Iterable[str]) -> list[Found]:
    from pybroker.log.files.storage import Storage
    from pybroker.log.removal.strays import find

    return sorted(row_of(log_dir, *each) for log_dir in log_dirs for each in find(Storage(), log_dir))


def not_yet_strays(log_dirs: Iterable[str], strays: Collection[Found]) -> list[Found]:
    """Returns logs of the topics of ``strays``, by id, that are not strays yet, because their brokers stopped earlier.
    """
    from pybroker.log.dirs.folders import parse_folder
    from pybroker.log.files import partition_metadata
    from pybroker.log.files.checkpoints import Checkpointed
    from pybroker.log.files.storage import Storage
    from pybroker.log.removal.strays import Note

    rows, names, ids = [], {each.topic for each in strays}, {each.id for each in strays}
    for log_dir in log_dirs:
        for name in Storage().folders(log_dir):
            folder, tp = f"{log_dir}/{name}", parse_folder(name)
            if tp is not None and tp.topic in names:
                note = Note(tp, Checkpointed(), False, Storage().modified_ms(folder), "")
                rows.append(row_of(log_dir, folder, partition_metadata.read(Storage(), folder), note))
    return sorted(each for each in rows if each.id in ids)


def row_of(log_dir: str, folder: str, topic_id: bytes, note: Note) -> Found:
    from pybroker.log.files import meta_properties
    from pybroker.log.files.storage import Storage
    from pybroker.log.inspection import inspect_partition
    from pyclient.protocol.uuids import to_base64

    mark = meta_properties.read(Storage(), log_dir) or meta_properties.NEW
    segments = inspect_partition(folder, deep=False).segments
    first = max(segments[0].base_offset, note.checkpointed.log_start_offset) if segments else 0
    end = segments[-1].next_offset if segments else first
    size = sum(each.size for each in segments)
    since = datetime.fromtimestamp(note.since_ms / 1000, UTC).isoformat(timespec="seconds")
    tp, id = note.topic_partition, to_base64(topic_id)
    return Found(*tp, id, mark.node_id, first, end, size, since, note.why, folder)


@strays.command(examples=EXAMPLES)
@click.argument("topic")
@click.option("--id", "wanted", metavar="ID", help="The topic's id, if several topics had the name.")
@data_dir
@log_dirs
@click.option("--zookeeper", metavar="HOST:PORT[,…][/chroot]", help="Where the brokers' metadata are.")
@click.option(
    "--server-properties", metavar="FILE", help="The brokers' settings: where ZooKeeper is, and how it knows them."
)
@planned("Do it; all brokers must be stopped.")
@with_output
def adopt(
    output: str,
    topic: str,
    wanted: str | None,
    data_dir: str | None,
    log_dirs: tuple[str, ...],
    zookeeper: str | None,
    server_properties: str | None,
    execute: bool,
) -> None:
    """Restores a topic that the metadata have lost, with its id. Its strays become its logs at the next start.

    For each partition, the broker with the longest log leads, and the others follow it. Brokers on other machines get
    their replicas by `partition reassign`, and then take their own strays back.
    """
    folders = list(folders_of(data_dir, log_dirs))
    found = [each for each in strays_in(folders) if each.topic == topic]
    ids = sorted({each.id for each in found if wanted in (None, each.id)})
    if len(ids) != 1:
        several = f"strays of '{topic}' have these ids: {', '.join(ids)}: choose one by --id"
        raise Failure(several if ids else f"there is no stray of '{topic}'" + (f" of id {wanted}" if wanted else ""))
    strays = [each for each in found if each.id == ids[0]]
    logs = [*strays, *not_yet_strays(folders, strays)]
    made = plan_of(topic, logs)
    ends = {(each.partition, each.broker): each.end for each in sorted(logs, key=lambda each: each.end)}
    rows = [
        (topic, each.index, ids[0], each.leader, list(each.replicas), each.leader_epoch, ends[each.index, each.leader])
        for each in made.partitions
    ]
    if execute:
        asyncio.run(write(made, store_of(root_of(data_dir), zookeeper, server_properties)))
    show(output, PLAN, rows)
    if not execute:
        click.echo(f"this is a plan: --execute, with all brokers stopped, does it\n{DELETED.format(topic)}", err=True)


def plan_of(topic: str, found: Iterable[Found]) -> TopicImage:
    from pybroker.cluster.adoption import Holder, Refused, adopted
    from pyclient.protocol.uuids import from_base64

    strays = list(found)
    holders = [Holder(each.partition, each.broker, epoch_of(each.folder), each.end) for each in strays]
    try:
        return adopted(topic, from_base64(strays[0].id), holders)
    except Refused as error:
        raise Failure(str(error)) from error


def epoch_of(folder: str) -> int:
    """Returns the newest leader epoch of a closed log; -1 without one."""
    from pybroker.log.files import leader_epochs

    try:
        with open(os.path.join(folder, leader_epochs.FILE_NAME), "rb") as file:
            return leader_epochs.LeaderEpochs(leader_epochs.decode(file.read())).latest
    except FileNotFoundError:
        return leader_epochs.UNDEFINED_EPOCH


def store_of(root: str, zookeeper: str | None, server_properties: str | None) -> StoreOptions:
    """Locates the metadata: in ZooKeeper by the settings with which brokers would start, or in the data folder."""
    from pybroker.config import ConfigError
    from pybroker.data_folder import plan
    from pybroker.process.start_options import StartOptions, configure, store_options
    from pybroker.store.stores import StoreOptions

    folder = plan(root, 1, ())
    options = StoreOptions(file=str(folder.store))
    if zookeeper or server_properties:
        started = StartOptions(file=server_properties, zookeeper=zookeeper)
        try:
            options = store_options(started, configure(started), folder)
        except ConfigError as error:
            raise Failure(str(error)) from error
    if options.file and not os.path.exists(options.file):
        where = "--data-dir, --zookeeper or --server-properties"
        raise Failure(f"{options.file} does not exist: name the metadata store with {where}")
    return options


async def write(topic: TopicImage, options: StoreOptions) -> None:
    from pybroker.cluster.adoption import Refused
    from pybroker.cluster.adoption import adopt as adopt_in
    from pybroker.store.interface import CoordinationError
    from pybroker.store.stores import open_store

    try:
        store = await open_store(options)
        try:
            await adopt_in(store, topic)
        finally:
            await store.close()
    except (Refused, CoordinationError) as error:
        raise Failure(str(error)) from error


@strays.command(examples=EXAMPLES)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False), metavar="FOLDER…")
@planned("Do it: THE RECORDS ARE LOST.")
@with_output
def remove(output: str, folders: tuple[str, ...], execute: bool) -> None:
    """Removes strays for good; brokers may run."""
    from pybroker.log.dirs.folders import DELETE_SUFFIX, STRAY_SUFFIX, parse_marked
    from pybroker.log.files.storage import Storage

    paths = [os.path.abspath(each) for each in folders]
    for path in paths:
        if parse_marked(os.path.basename(path), STRAY_SUFFIX) is None:
            raise Failure(f"{path} is not a stray: its name does not end with {STRAY_SUFFIX}")
    found = [each for each in strays_in(sorted({os.path.dirname(path) for path in paths})) if each.folder in paths]
    if execute:
        for each in found:
            name = f"{each.folder.rpartition('.')[0]}.{uuid.uuid4().hex}{DELETE_SUFFIX}"
            os.rename(each.folder, name)  # what a crash leaves of it the broker removes
            Storage().remove_folder(name)
    show(output, COLUMNS, found)
    if not execute:
        click.echo("this is a plan: --execute removes them", err=True)
