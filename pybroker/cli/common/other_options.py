"""Options of other tools, and the options here that do the same."""

from __future__ import annotations

from collections.abc import Mapping

import click

OTHERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("-t", "--topic", "--topics"), ("topic", "topics")),
    **dict.fromkeys(("--group", "--group-id"), ("group", "groups")),
    **dict.fromkeys(("--offset", "--start-offset"), ("start",)),
    "--end-offset": ("stop",),
    "--max-messages": ("count",),
    "--replication-factor": ("replicas",),
    "--message": ("values",),
    "--broker-list": ("bootstrap",),
    **dict.fromkeys(("--consumer-property", "--producer-property"), ("settings",)),
}
"""Names of Kafka's scripts and of kcat, and the parameters of verbs that mean the same."""


def advice(error: click.NoSuchOption) -> str | None:
    """Returns a sentence about the option to use instead; None if no other tool has the given option."""
    context = error.ctx
    names = OTHERS.get(error.option_name, ())
    same = next((each for each in context.command.params if each.name in names), None) if context else None
    if context is None or same is None:
        return None
    told = f"No such option {error.option_name!r}"
    if isinstance(same, click.Option):
        return f"{told}: here it is {max(same.opts, key=len)}"
    word = same.human_readable_name.strip("[]…")
    return f"{told}: the {word.lower()} is an argument: `{context.command_path} {word}`"
