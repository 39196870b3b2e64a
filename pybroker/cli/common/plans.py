"""What could destroy something: ``--dry-run`` shows it, ``--execute`` does it.

The rule. A verb whose line names what goes (``topic delete NAME``, ``topic trim NAME --before PLACE``, ``group
delete``, ``txn abort``) does it at once. A verb that works out itself what it will do (``group reset``, ``partition
reassign``, ``elect --unclean``, ``log strays adopt`` and ``remove``) shows its plan until ``--execute``. Each of them
takes both options, so that the careful may always type one: ``--dry-run`` changes nothing, and fails where the deed
would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pybroker.cli.common.verbs import complain


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb that acts at once ``dry_run``."""
    return _with_both(function, "Only show what would go.", "Do it; this is the default.", name="dry_run")


def planned(do: str = "Do it.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a verb that shows its plan first ``execute``; ``do`` is what --help says of it."""
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
    """Says so, behind a plan."""
    complain(f"{what}{': ' if what else ''}nothing was changed: --execute does it")
