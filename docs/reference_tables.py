"""The pages of the reference that are tables of the code: settings, errors."""

from __future__ import annotations

import re
from typing import TypeGuard

import pyclient.consumer.errors
import pyclient.errors
import pyclient.producer.errors
from pyclient import KafkaError
from pyclient.config import ADMIN, CONSUMER, PRODUCER
from pyclient.protocol import errors

MADE = "\n---\nMade by `python -m docs.reference` of the code and its docstrings; change those.\n"
SETTINGS = """# Settings

Keywords have `_` for `.`: `Producer(linger_ms=5)`; or `config={"linger.ms": 5}`. Names and defaults are Kafka's.
"""
ERRORS = """# Errors

All are below `KafkaError`, have `name`, `retriable` (the same call may succeed later; the client has tried again itself
until its time was over), `fatal` (close this client), and can be pickled. `except pyclient.errors.OffsetOutOfRange`
catches one, `except KafkaError` all.

## The client's own

| Class | Retriable | Fatal | When |
|---|---|---|---|
"""
ANSWERED = """
## What brokers answer

| Code | Class | Retriable | Text |
|---|---|---|---|
"""


def prose(lines: list[str]) -> str:
    """Lines of a docstring as Markdown; code that is set in stands between blank lines."""
    out: list[str] = []
    for line in (line.rstrip().removesuffix('"""').rstrip() for line in lines):
        if out and out[-1] and line and line.startswith("    ") != out[-1].startswith("    "):
            out.append("")
        out.append(line)
    return re.sub(r"``(.+?)``", r"`\1`", "\n".join(out).strip("\n"), flags=re.DOTALL)


def settings_text() -> str:
    """The page of settings, of the tables that read them."""
    parts = [SETTINGS]
    for title, table in (("Producer", PRODUCER), ("Consumer", CONSUMER), ("Admin", ADMIN)):
        parts.append(f"## {title}\n\n| Key | Default | What it is |\n|---|---|---|")
        for key in sorted(table.values()):
            values = f" One of {', '.join(f'`{word}`' for word in key.words)}." if key.words else ""
            parts.append(f"| `{key.name}` | {default_text(key.default)} | {key.doc}{values} |")
        parts.append("")
    return "\n".join(parts) + MADE


def default_text(value: object) -> str:
    if value is None or value in ("", ()):
        return "–"
    shown = ", ".join(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else value
    return f"`{shown}`"


def errors_text() -> str:
    """The page of errors, of the classes themselves."""
    modules = (pyclient.errors, pyclient.producer.errors, pyclient.consumer.errors)
    found = [each for module in modules for each in vars(module).values() if is_error(each)]
    own = {each.__name__: each for each in found if each.__module__ in [module.__name__ for module in modules]}
    rows = [
        f"| `{name}` | {word(each.retriable)} | {word(each.fatal)} | {first_of(each)} |\n"
        for name, each in sorted(own.items())
    ]
    known = {each.code: each for each in vars(errors).values() if is_error(each) and each is not KafkaError}
    answered = [
        f"| {code} | `{each.__name__}` | {word(each.retriable)} | {each.text} |\n"
        for code, each in sorted(known.items())
    ]
    return "".join([ERRORS, *rows, ANSWERED, *answered]) + MADE


def first_of(error: type[KafkaError]) -> str:
    """The first paragraph of its docstring, in a line."""
    return " ".join(prose((error.__doc__ or "").split("\n\n")[0].splitlines()).split())


def is_error(found: object) -> TypeGuard[type[KafkaError]]:
    return isinstance(found, type) and issubclass(found, KafkaError) and not found.__name__.startswith("_")


def word(value: bool) -> str:
    return "yes" if value else "no"
