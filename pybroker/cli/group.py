"""``pybroker group``: list, describe, lag, reset, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.changes import DELETED
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.output import DOCUMENTS, show, with_output
from pybroker.cli.common.places import Spot, SpotType, chosen, edges, offsets_at
from pybroker.cli.common.plans import at_once, nothing_was_changed, planned
from pybroker.cli.common.verbs import Failure, Suggesting, complain, failures
from pybroker.cli.common.watching import watched, with_watch
from pyclient import TopicPartition

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import GroupDescription

RESETTING = """
pybroker group reset readers --topic flights --to-earliest              shows what it would do
pybroker group reset readers --topic flights:0,1 --to -100 --execute    a hundred before the end
pybroker group reset readers --all-topics --to 2026-11-22T01:00 --execute
"""
LAGS = ("group", "topic", "partition", "committed", "end", "lag", "member", "client", "host")
MEMBERS = ("group", "member", "instance", "client", "host", "partitions")
STATES = ("group", "type", "state", "protocol", "assignor", "coordinator", "members")


@click.group(cls=Suggesting)
def group() -> None:
    """Consumer groups and their offsets."""


@group.command("list")
@click.option("--state", "states", multiple=True, help="Only those: Stable, Empty, …")
@click.option("--type", "types", multiple=True, help="Only those: Classic, Consumer.")
@on_cluster
@with_output
def list_groups(cluster: Cluster, output: str, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """Lists groups."""
    with cluster.admin() as admin:
        found = admin.list_groups(states=states, types=types)
    rows = [(each.group_id, each.type or None, each.state, each.protocol_type or None) for each in found]
    show(output, ("group", "type", "state", "protocol"), rows, none="no groups")


@group.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]…", shell_complete=GROUP)
@click.option("--members", "view", flag_value="members", help="Its members and their partitions.")
@click.option("--state", "view", flag_value="state", help="A line for each group.")
@click.option("--only-with-lag", is_flag=True, help="Leave out partitions that were read to the end.")
@with_watch
@on_cluster
@with_output
def describe(
    cluster: Cluster,
    output: str,
    groups: tuple[str, ...],
    view: str | None,
    only_with_lag: bool,
    watch: float | None,
) -> int:
    """Shows what groups (all without GROUP) have committed and how far they lag; JSON has members too."""
    with cluster.admin() as admin:
        return watched(lambda: show_groups(admin, output, groups, view, only_with_lag), watch, output)


def show_groups(admin: Admin, output: str, groups: tuple[str, ...], view: str | None, only_with_lag: bool) -> int:
    """Shows groups, or all; returns the exit code."""
    names = groups or tuple(row.group_id for row in admin.list_consumer_groups())
    found = admin.describe_consumer_groups(names, check=False)
    needs_lags = view is None or output in DOCUMENTS
    lags = lags_of(admin, found.values()) if needs_lags else {}
    if only_with_lag:
        lags = {name: [row for row in rows if row[5]] for name, rows in lags.items()}
    rows_of = {"members": member_rows, "state": state_rows}
    described = found.values()
    shown = (row for rows in lags.values() for row in rows) if view is None else rows_of[view](described)
    columns = {"members": MEMBERS, "state": STATES, None: LAGS}[view]
    documents = [document(each, lags.get(each.group_id, [])) for each in described]
    show(output, columns, shown, documents=documents, names=found)
    return failures("group", found.errors)


def lags_of(admin: Admin, groups: Iterable[GroupDescription]) -> dict[str, list[tuple[Any, ...]]]:
    """Returns each group's rows: one per partition that is assigned or has an offset. Asks for all groups at once."""
    from pyclient.admin import OffsetSpec

    described = {each.group_id: each for each in groups}
    committed = admin.list_offsets_of_consumer_groups(described, check=False)
    owners = {
        name: {tp: member for member in each.members for tp in member.assignment} for name, each in described.items()
    }
    partitions = {name: sorted({*committed.get(name, {}), *owners[name]}) for name in described}
    wanted = dict.fromkeys((tp for some in partitions.values() for tp in some), OffsetSpec.LATEST)
    ends = admin.list_offsets(wanted, check=False) if wanted else {}

    def row(name: str, tp: TopicPartition) -> tuple[Any, ...]:
        mine = committed.get(name, {})
        offset = mine[tp].offset if tp in mine else None
        end = ends[tp].offset if tp in ends else None
        lag = None if offset is None or end is None else max(0, end - offset)
        owner = owners[name].get(tp)
        who = (None, None, None) if owner is None else (owner.member_id, owner.client_id, owner.host)
        return name, *tp, offset, end, lag, *who

    return {name: [row(name, tp) for tp in some] for name, some in partitions.items()}


def member_rows(groups: Iterable[GroupDescription]) -> list[tuple[Any, ...]]:
    return [
        (
            group.group_id,
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.host,
            [str(tp) for tp in each.assignment],
        )
        for group in groups
        for each in group.members
    ]


def state_rows(groups: Iterable[GroupDescription]) -> list[tuple[Any, ...]]:
    return [
        (
            each.group_id,
            each.type,
            each.state,
            each.protocol_type or None,
            each.assignor or None,
            each.coordinator,
            len(each.members),
        )
        for each in groups
    ]


def document(group: GroupDescription, lags: list[tuple[Any, ...]]) -> dict[str, Any]:
    state = dict(zip(STATES, state_rows([group])[0], strict=True))
    members = [dict(zip(MEMBERS[1:], row[1:], strict=True)) for row in member_rows([group])]
    offsets = [dict(zip(LAGS[1:7], row[1:7], strict=True)) for row in lags]
    return state | {"members": members, "offsets": offsets}


@group.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]…", shell_complete=GROUP)
@click.option("--only-with-lag", is_flag=True, help="Leave out groups that have read to the end.")
@with_watch
@on_cluster
@with_output
def lag(cluster: Cluster, output: str, groups: tuple[str, ...], only_with_lag: bool, watch: float | None) -> int:
    """Shows the lag of groups (all without GROUP): records in all partitions, and the greatest of one."""
    with cluster.admin() as admin:
        return watched(lambda: show_lags(admin, output, groups, only_with_lag), watch, output)


def show_lags(admin: Admin, output: str, groups: tuple[str, ...], only_with_lag: bool) -> int:
    """Shows the lag of groups, or of all; returns the exit code."""
    names = groups or tuple(row.group_id for row in admin.list_consumer_groups())
    found = admin.describe_consumer_groups(names, check=False)
    asked = lags_of(admin, found.values())
    lags = {name: [row[5] for row in rows if row[5] is not None] for name, rows in asked.items()}
    rows = [(name, found[name].state, len(each), sum(each), max(each, default=0)) for name, each in lags.items()]
    rows.sort(key=lambda row: (-row[3], row[0]))
    show(output, ("group", "state", "partitions", "lag", "greatest"), [r for r in rows if r[3] or not only_with_lag])
    return failures("group", found.errors)


@group.command(examples=RESETTING)
@click.argument("group", metavar="GROUP", shell_complete=GROUP)
@click.option(
    *("--topic", "topics"),
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="A topic, or these partitions of it.",
    shell_complete=TOPIC,
)
@click.option("--all-topics", is_flag=True, help="All committed offsets of the group.")
@click.option("--to", "to", type=SpotType(), metavar="PLACE", help="earliest, latest, 42, -100, @MS or ISO time.")
@click.option("--to-earliest", "to", flag_value="earliest", type=SpotType(), help="The same as --to earliest.")
@click.option("--to-latest", "to", flag_value="latest", type=SpotType(), help="The same as --to latest.")
@click.option("--shift-by", type=int, metavar="±N", help="Move by this many records, back if negative.")
@planned()
@on_cluster
@with_output
def reset(
    cluster: Cluster,
    output: str,
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to: Spot | None,
    shift_by: int | None,
    execute: bool,
) -> int:
    """Sets the offsets of a group without members; shows what would be done until --execute."""
    if (to is None) == (shift_by is None):
        raise click.UsageError("name the new place: use either --to PLACE or --shift-by ±N")
    if bool(topics) == all_topics:
        raise click.UsageError("name the topics: use either --topic TOPIC or --all-topics")
    with cluster.admin() as admin:
        refuse_members(admin, group)
        now = {tp: row.offset for tp, row in admin.list_consumer_group_offsets(group).items()}
        partitions = sorted(now) if all_topics else [tp for each in topics for tp in chosen(admin, each)]
        then = shifted(admin, now, partitions, shift_by) if to is None else offsets_at(admin, partitions, to)
        errors = admin.alter_consumer_group_offsets(group, then, check=False).errors if execute and then else {}
    show(output, ("topic", "partition", "from", "to"), [(*tp, now.get(tp), then[tp]) for tp in sorted(then)])
    if not execute:
        nothing_was_changed(f"group {group}")
    elif not then:
        complain(f"group {group} has no offsets to reset: --topic names some")
    return failures(f"group {group}: partition", errors)


def refuse_members(admin: Admin, group: str) -> None:
    """Raises Failure if the group has members, because these own its offsets. A group that does not exist has none."""
    found = admin.describe_consumer_groups(group, check=False).get(group)
    if found is not None and found.members:
        count = len(found.members)
        raise Failure(f"group {group} has {count} member{'s' * (count > 1)}: stop them first, then reset")


def shifted(
    admin: Admin, now: dict[TopicPartition, int], partitions: list[TopicPartition], by: int | None
) -> dict[TopicPartition, int]:
    """Returns the offsets moved by ``by`` records, within the log. Partitions without an offset stay unset."""
    some = [tp for tp in partitions if tp in now]
    if not some:
        return {}
    first, last = edges(admin, some, latest=False), edges(admin, some, latest=True)
    return {tp: min(max(now[tp] + (by or 0), first[tp]), last[tp]) for tp in some}


@group.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…", shell_complete=GROUP)
@click.option("--topic", "topics", multiple=True, help="Delete only the offsets of this topic.", shell_complete=TOPIC)
@at_once
@on_cluster
@with_output
def delete(
    cluster: Cluster, output: str, groups: tuple[str, ...], topics: tuple[str, ...], dry_run: bool
) -> int:
    """Deletes groups without members, with their offsets, and shows which; --dry-run shows the offsets."""
    with cluster.admin() as admin:
        if dry_run:
            return show_doomed(admin, output, groups, topics)
        if not topics:
            errors = admin.delete_consumer_groups(groups, check=False).errors
            show(output, ("group", "state"), [(name, DELETED) for name in groups if name not in errors])
            return failures("group", errors)
        done = [delete_offsets(admin, each, topics) for each in groups]
    show(output, ("group", "topic", "partition", "state"), [row for _, rows in done for row in rows])
    return max(code for code, _ in done)


def show_doomed(admin: Admin, output: str, groups: tuple[str, ...], topics: tuple[str, ...]) -> int:
    """Shows the committed offsets that a deletion would remove. Returns the exit code that the deletion would have."""
    found = admin.describe_consumer_groups(groups, check=False)
    committed = admin.list_offsets_of_consumer_groups(list(found), check=False)
    rows = [
        (name, *tp, offsets[tp].offset)
        for name, offsets in committed.items()
        for tp in sorted(offsets)
        if not topics or tp.topic in topics
    ]
    show(output, ("group", "topic", "partition", "committed"), rows, names=found)
    nothing_was_changed()
    at_work = [name for name, each in found.items() if each.members and not topics]
    for name in at_work:
        complain(f"group {name} has members: stop them first, then delete")
    return max(failures("group", found.errors | committed.errors), int(bool(at_work)))


def delete_offsets(admin: Admin, group: str, topics: tuple[str, ...]) -> tuple[int, list[tuple[Any, ...]]]:
    """Deletes a group's offsets of topics. Returns the exit code, and a row for each."""
    committed = admin.list_consumer_group_offsets(group)
    some = [tp for tp in committed if tp.topic in topics]
    if not some:
        complain(f"group {group} has no offsets of {', '.join(topics)}: `pybroker group describe` shows them")
        return 1, []
    errors = admin.delete_consumer_group_offsets(group, some, check=False).errors
    rows = [(group, *tp, DELETED) for tp in sorted(some) if tp not in errors]
    return failures(f"group {group}: partition", errors), rows
