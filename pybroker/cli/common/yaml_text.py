"""Writes documents as YAML, in block style. Scalars that are not plain words are written as in JSON (YAML 1.2).

The documents have only values that JSON has, so no library is needed: mappings, lists, texts, numbers, booleans, null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
#: Words that some version of YAML takes for something else than a text.
RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
STEP = "  "


def as_yaml(value: Any) -> str:
    """Formats a document, with its line feed."""
    return "".join(f"{line}\n" for line in lines(value))


def lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from entry(f"{scalar(str(key))}:", each)
    elif is_list(value) and value:
        for each in value:
            first, *rest = lines(each)
            yield f"- {first}"
            yield from (STEP + line for line in rest)
    else:
        yield scalar(value)


def entry(key: str, value: Any) -> Iterator[str]:
    """Yields the lines of a mapping's key; nested values follow below it."""
    if is_nested(value):
        yield key
        yield from (STEP + line for line in lines(value))
    else:
        yield f"{key} {scalar(value)}"


def is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def is_nested(value: Any) -> bool:
    return bool(value) and (is_list(value) or isinstance(value, Mapping))


def scalar(value: Any) -> str:
    """Formats a text, a number, true, false, null, or an empty list or mapping."""
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and value.lower() not in RESERVED
        return value if plain else json.dumps(value, ensure_ascii=False)
    if is_list(value):
        return "[]"
    return json.dumps(value, ensure_ascii=False)
