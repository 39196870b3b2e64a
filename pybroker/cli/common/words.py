"""Words of the command line that are bytes, and words that have to be text.

If a word on a command line is not UTF-8, Python returns it as text with surrogates (PEP 383). A key or a value takes
its bytes as they are; a name or a number with such bytes is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click


class Bytes(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option's value as bytes. Text is encoded in UTF-8; bytes that are not text stay as they were typed."""

    name = "text"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> bytes:
        return value if isinstance(value, bytes) else as_typed(str(value))


class Raw(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option's value that may contain bytes that are not text. The verb itself checks it."""

    name = "text"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        return str(value)


ANYTHING = (Bytes, Raw, click.File, click.Path)
"""Types of words that need not be text."""


def as_typed(text: str) -> bytes:
    """Returns the bytes that the user typed."""
    return text.encode("utf-8", "surrogateescape")


def is_text(text: str) -> bool:
    """Says whether UTF-8 can encode the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_no_text(context: click.Context) -> None:
    """Raises UsageError for a parameter that must be text but is not."""
    for parameter in context.command.get_params(context):
        if not isinstance(parameter.type, ANYTHING):
            for text in texts(context.params.get(parameter.name or "")):
                if not is_text(text):
                    raise click.UsageError(f"{parameter.get_error_hint(context)}: {text!a} is not UTF-8", context)


def texts(value: Any) -> Iterator[str]:
    """Yields the texts in click's value of a parameter."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for each in value:
            yield from texts(each)
