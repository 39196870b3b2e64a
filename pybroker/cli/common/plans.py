"""Verbs that could destroy something: ``--dry-run`` only shows it, ``--execute`` carries it out.

A verb acts at once if its command line names what to remove: ``topic delete NAME``, ``topic trim NAME --before PLACE``,
``group delete``, ``txn abort``. A verb that works out what to do only shows its plan, until it gets ``--execute``:
``group reset``, ``partition reassign``, ``elect --unclean``, ``log strays adopt`` and ``remove``. Each verb takes both
options, so a careful user may always type one. ``--dry-run`` changes nothing, and fails where ``--execute`` would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pybroker.cli.common.verbs import complain


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives both options to a verb that acts at once, and the argument ``dry_run``."""
    return _with_both(function, "Only show what would go.", "Carry it out; this is the default.", name="dry_run")


def planned(do: str = "Carry it out.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives both options to a verb that only shows its plan, and the argument ``execute``. ``do`` is the help text of
    --execute.
    """
    return functools.partial(_with_both, dry="Only show it; this is the default.", do=do, name="execute")


def _with_both(function: Callable[..., Any], dry: str, do: str, name: str) -> Callable[..., Any]:
    @click.option("--dry-run", is_flag=True, help=dry)
    @click.option("--execute", is_flag=True, help=do)
    @functools.wraps(function)
    def call(dry_run: bool, execute: bool, **options: Any) -> Any:
        if dry_run and execute:
            raise click.UsageError("--dry-run and --execute exclude each other")
        return function(**{name: {"dry_run": dry_run, "execute": execute}[name]}, **options)

    return call


def nothing_was_changed(what: str = "") -> None:
    """Says after a plan that nothing was changed. ``what`` names the object of the plan."""
    told = "this was only a plan, and nothing was changed; --execute, in place of --dry-run, carries it out"
    complain(f"{what}{': ' if what else ''}{told}")
