"""``pybroker kafka-consumer-groups``: takes the options of kafka-consumer-groups.sh and answers as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.output import plain_table, write
from pybroker.cli.common.places import Spot, chosen, offsets_at
from pybroker.cli.common.plans import nothing_was_changed
from pybroker.cli.common.verbs import Verb, complain, failures
from pybroker.cli.group import delete_offsets, lags_of, refuse_members, shifted
from pybroker.cli.kafka.common.options import on_kafka, only
from pybroker.cli.kafka.common.reset_plans import Plan, exported, target

if TYPE_CHECKING:
    from pyclient import Admin, TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
LAGS = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
MEMBERS = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
STATES = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")


@click.command("kafka-consumer-groups", cls=Verb)
@click.option("--list", "actions", flag_value="list", multiple=True, help="Names, a line each.")
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="Offsets, --members, --state.")
@click.option("--delete", "actions", flag_value="delete", multiple=True, help="Groups without members.")
@click.option("--reset-offsets", "actions", flag_value="reset-offsets", multiple=True, help="Shows it until --execute.")
@click.option("--delete-offsets", "actions", flag_value="delete-offsets", multiple=True, help="The offsets of a topic.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", shell_complete=GROUP)
@click.option("--all-groups", is_flag=True, help="Instead of --group.")
@click.option("--offsets", "view", flag_value="offsets", help="With --describe: this is the default.")
@click.option("--members", "view", flag_value="members", help="With --describe.")
@click.option("--state", is_flag=False, flag_value="", metavar="[STATE,…]", help="Show states; with --list only these.")
@click.option("--type", "kind", is_flag=False, flag_value="", metavar="[TYPE,…]", help="With --list: show, only these.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", shell_complete=TOPIC)
@click.option("--all-topics", is_flag=True, help="All committed offsets of the group.")
@click.option("--to-earliest", is_flag=True, help="The first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last.")
@click.option("--to-current", is_flag=True, help="Where the group is.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N")
@click.option("--to-datetime", metavar="2026-11-22T01:00:00.000")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="So long ago.")
@click.option("--from-file", metavar="FILE.csv", help="What --export wrote.")
@click.option("--export", is_flag=True, help="With --reset-offsets: show it as CSV.")
@click.option("--timeout", type=int, hidden=True)
@click.option("--shift-by", type=int, metavar="±N", help="So many on, or back.")
@click.option("--dry-run", is_flag=True, help="Only show it; this is the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@on_kafka()
def consumer_groups(
    cluster: Cluster,
    actions: tuple[str, ...],
    groups: tuple[str, ...],
    all_groups: bool,
    view: str | None,
    state: str | None,
    kind: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    export: bool,
    timeout: int | None,
    dry_run: bool,
    execute: bool,
    **where: object,
) -> int:
    """kafka-consumer-groups.sh: --list, --describe, --delete, --reset-offsets or --delete-offsets."""
    action = only(actions, ACTIONS)
    if action != "list" and bool(groups) == all_groups:
        raise click.UsageError(f"--{action}: use either --group or --all-groups")
    scoped = action == "delete-offsets" or (action == "reset-offsets" and where["from_file"] is None)
    if scoped and bool(topics) == all_topics:
        raise click.UsageError(f"--{action}: use either --topic or --all-topics")
    if action == "delete-offsets" and all_topics:
        raise click.UsageError("--delete-offsets: --topic is missing")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other")
    where_to = target(where) if action == "reset-offsets" else 0
    with cluster.admin() as admin:
        if action == "list":
            write(listed(admin, state, kind))
            return 0
        there = [each.group_id for each in admin.list_consumer_groups()] if all_groups else list(groups)
        if action == "describe":
            return describe(admin, there, view if state is None else "state")
        if action == "delete":
            return delete(admin, there)
        if action == "delete-offsets":
            return max((delete_offsets(admin, each, topics)[0] for each in there), default=0)
        plans = {each: planned(admin, each, topics, where_to) for each in there}
        write(exported(plans) if export else tables(plans))
        return max((commit(admin, group, plan, execute) for group, plan in plans.items()), default=0)


def listed(admin: Admin, state: str | None, kind: str | None) -> str:
    """Returns names of groups, or a table with states and types if one of these was requested."""
    if state is None and kind is None:
        return "".join(f"{each.group_id}\n" for each in admin.list_consumer_groups())
    states, kinds = ([word.strip() for word in (text or "").split(",") if word.strip()] for text in (state, kind))
    found = admin.list_groups(states=states, types=kinds)
    columns = ["GROUP", *(["TYPE"] if kind is not None else []), *(["STATE"] if state is not None else [])]
    rows = [
        (each.group_id, *([each.type] if kind is not None else []), *([each.state] if state is not None else []))
        for each in found
    ]
    return plain_table(columns, rows)


def describe(admin: Admin, groups: tuple[str, ...] | list[str], view: str | None) -> int:
    found = admin.describe_consumer_groups(groups, check=False)
    lags = lags_of(admin, found.values()) if view not in ("state", "members") else {}
    for name, group in found.items():
        rows: list[tuple[object, ...]]
        if view == "state":
            columns: tuple[str, ...] = STATES
            rows = [(name, group.coordinator, group.assignor or None, group.state, len(group.members))]
        elif view == "members":
            columns = MEMBERS
            rows = [(name, m.member_id, m.host, m.client_id, len(m.assignment)) for m in group.members]
        else:
            columns = LAGS
            rows = [(*row[:6], row[6], row[8], row[7]) for row in lags[name]]
        if not group.members and view != "state":
            complain(f"Consumer group '{name}' has no active members.")
        if rows:
            write("\n" + plain_table(columns, rows))
    return failures("group", found.errors)


def delete(admin: Admin, groups: tuple[str, ...] | list[str]) -> int:
    done = admin.delete_consumer_groups(groups, check=False)
    if done:
        names = ", ".join(f"'{name}'" for name in done)
        write(f"Deletion of requested consumer groups ({names}) was successful.\n")
    return failures("group", done.errors)


def planned(
    admin: Admin, group: str, topics: tuple[str, ...], where_to: Spot | int | Plan
) -> dict[TopicPartition, int]:
    """Plans the new offsets of a group, which must have no members. If ``topics`` is empty, plans all committed ones.
    """
    refuse_members(admin, group)
    if isinstance(where_to, dict):
        return where_to.get(group, where_to.get(None, {}))
    now = {tp: row.offset for tp, row in admin.list_consumer_group_offsets(group).items()}
    partitions = [tp for each in topics for tp in chosen(admin, each)] if topics else sorted(now)
    if isinstance(where_to, Spot):
        return offsets_at(admin, partitions, where_to)
    return shifted(admin, now, partitions, where_to)


def tables(plans: dict[str, dict[TopicPartition, int]]) -> str:
    """Returns a table for each group that gets offsets."""
    columns = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    rows = {group: [(group, *tp, offset) for tp, offset in sorted(plan.items())] for group, plan in plans.items()}
    return "".join("\n" + plain_table(columns, each) for each in rows.values() if each)


def commit(admin: Admin, group: str, plan: dict[TopicPartition, int], execute: bool) -> int:
    """Commits the planned offsets, for --execute."""
    if not execute:
        nothing_was_changed(f"group {group}")
        return 0
    errors = admin.alter_consumer_group_offsets(group, plan, check=False).errors if plan else {}
    return failures(f"group {group}: partition", errors)
