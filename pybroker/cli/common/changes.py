"""Rows in which a verb shows the keys and objects that it has changed or deleted, in every format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybroker.cli.common.verbs import complain

if TYPE_CHECKING:
    from pyclient.admin import AlterConfigOp

CHANGED = ("name", "key", "change", "value")
DELETED = "deleted"
WORDS = {"SET": "set", "DELETE": "unset", "APPEND": "add", "SUBTRACT": "remove"}
"""The command line's words for the operations on keys."""

SECRET = re.compile(r"password|secret|jaas|keystore\.key")
"""Matches keys whose values must not appear on a terminal. A broker does not show them either."""

Change = tuple[str, str, str, str | int | None]


def changed(names: Iterable[str], ops: Iterable[AlterConfigOp]) -> list[Change]:
    """Returns rows that show the changes of each name's keys."""
    given = list(ops)
    return [(name, each.name, WORDS[each.op.name], shown(each)) for name in names for each in given]


def shown(op: AlterConfigOp) -> str | None:
    return "[hidden]" if op.value is not None and SECRET.search(op.name) else op.value


def only_checked() -> None:
    """Prints that nothing was changed, after a dry run of a verb that has no --execute."""
    complain("nothing was changed: without --dry-run it is")
