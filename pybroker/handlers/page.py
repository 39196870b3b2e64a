"""The page of served APIs, made from the table: ``python -m pybroker.handlers.page > docs/apis.md``."""

from __future__ import annotations

import re
import sys

from pybroker.handlers import Row, rows

_HEAD = """# APIs

What this broker serves and advertises, made from its one table (`pybroker/handlers/__init__.py`) by
`python -m pybroker.handlers.page > docs/apis.md`. What is not here is not advertised. Flexible versions, tagged fields
and topic ids are served wherever a version has them.

| Key | API | Versions | What it does |
|---|---|---|---|
"""


def _purpose(row: Row) -> str:
    """The first sentence of the handler's module, without the name of the API."""
    module = sys.modules[row.handle.__module__]
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    text = " ".join(first.split())
    sentence = re.sub(r"^v[\d-]+\. ", "", text.partition(": ")[2] or text)
    return sentence.replace("|", "\\|").replace("``", "`")


def _versions(row: Row) -> str:
    served = f"{row.min_version}–{row.max_version}" if row.min_version < row.max_version else f"{row.max_version}"
    if row.advertised_min < row.min_version:
        return f"{served} (advertised from {row.advertised_min})"
    return served


def page() -> str:
    """The page in Markdown."""
    lines = [f"| {row.api.key} | {row.api.name} | {_versions(row)} | {_purpose(row)} |" for row in rows()]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
