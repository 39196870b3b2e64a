"""The page of served APIs, made from the table: ``python -m docs.apis > docs/apis.md``."""

from __future__ import annotations

import re
import sys

from pybroker.handlers import ROWS, Row

_HEAD = """# APIs

This table lists the APIs and versions that the broker serves. It advertises no others. Flexible versions, tagged
fields and topic ids are served wherever a version has them. `python -m docs.apis > docs/apis.md`
makes this page from `pybroker/handlers/__init__.py`.

*Needs* names the rights that the broker asks for where it has an authorizer: to the cluster, or to each topic, group
and transactional id that the request names. As in Kafka, not every request needs all of them.

| Key | API | Versions | Needs | What it does |
|---|---|---|---|---|
"""


def _purpose(row: Row) -> str:
    """The first sentence of the handler's module, without the name of the API."""
    module = sys.modules[row.handle.__module__]
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    text = " ".join(first.split())
    sentence = re.sub(r"^v[\d-]+\. ", "", text.partition(": ")[2] or text)
    return sentence.replace("|", "\\|").replace("``", "`")


def _versions(row: Row) -> str:
    low, high, advertised = row.api.min_version, row.api.max_version, row.api.advertised_min
    served = f"{low}–{high}" if low < high else f"{high}"
    return f"{served} (advertised from {advertised})" if advertised < low else served


def _needs(row: Row) -> str:
    """The rights, by kind of resource; of those to the cluster that are asked for the whole request one is enough."""
    texts = [f"{right.operation.name} {right.kind.name.lower().replace('_', ' ')}" for right in row.needs.rights]
    return (", " if row.needs.refuse is None else " or ").join(texts) or "–"


def page() -> str:
    """The page in Markdown."""
    rows = [row for row in ROWS if not row.between_brokers]
    lines = [f"| {row.api.key} | {row.api.name} | {_versions(row)} | {_needs(row)} | {_purpose(row)} |" for row in rows]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
