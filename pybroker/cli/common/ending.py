"""How the command ends: every outcome becomes an exit code and at most one line on stderr.

    0  done    1  failed    2  misused    130  SIGINT    141  nobody reads stdout    143  SIGTERM

As in a shell, exit codes above 128 are 128 plus the number of a signal. ``start`` ends with 0 after SIGINT and SIGTERM.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn

import click

from pybroker.cli.common.other_options import advice

SIGNALLED = 128
CLOSED_PIPE = SIGNALLED + signal.SIGPIPE
IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that only a write to stdout can raise, because the verbs write no other file."""
NUMBERS = {"integer": "whole number", "float": "number"}
NO_NUMBER = re.compile(r"is not a valid (integer|float)(?: range)?\.")
"""Matches click's text for a word that is not a number."""

_signal: int = signal.SIGINT


def interrupt(number: int, frame: object) -> NoReturn:
    """Handles a signal: ends the verb in order, as Ctrl-C does. Raises KeyboardInterrupt."""
    global _signal
    _signal = number
    raise KeyboardInterrupt


def end_by_signals() -> None:
    """Lets SIGINT and SIGTERM end the verb in order from now on. Does nothing off the main thread."""
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)


def after_signal() -> int:
    """Returns the exit code after the signal that has ended the verb."""
    return SIGNALLED + _signal


def open_streams() -> None:
    """Opens /dev/null for streams that were closed (``>&-``), and lets stdout escape characters that its encoding
    lacks.

    With PYTHONUNBUFFERED, the ``write`` of Python's stdout may write only a part, and its callers ignore that. So a
    signal during a long write, even SIGCONT, would cut the output. Therefore, stdout gets a buffer, which every verb
    flushes.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        raw: object = sys.stdout.buffer
        if isinstance(raw, io.RawIOBase):
            encoding = sys.stdout.encoding
            sys.stdout.detach()
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=True)
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def closed_pipe() -> Iterator[None]:
    """Within ``with``, if nobody reads stdout any longer, the command ends silently, with a special exit code."""
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(CLOSED_PIPE) from None


def code_of(error: BaseException) -> int:
    """Reports in one line the error that ended a verb, and returns the exit code."""
    if isinstance(error, click.exceptions.Abort):  # at a prompt, it hides the error for which it was raised
        if isinstance(error.__context__, KeyboardInterrupt):
            return after_signal()
        tell("pybroker: the input has ended before an answer")
        return 1
    if isinstance(error, KeyboardInterrupt):
        return after_signal()
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        tell(error.format_message())
        return 2
    tell(f"pybroker: {' '.join(words_of(error).split())}")
    return error.exit_code if isinstance(error, click.ClickException) else 1


def is_of_click(error: click.UsageError, text: str) -> bool:
    """Returns whether click has found a missing or wrong argument. Such texts need advice; our own texts have it."""
    return type(error) is not click.UsageError or text.startswith("Got unexpected extra")


def words_of(error: BaseException) -> str:
    """Returns a sentence about an error: the fault, the place, and what to do."""
    if isinstance(error, click.NoSuchOption) and (told := advice(error)) is not None:
        return told
    if isinstance(error, click.ClickException):
        text = NO_NUMBER.sub(lambda found: f"is not a {NUMBERS[found[1]]}.", error.format_message())
        if isinstance(error, click.UsageError) and error.ctx is not None and is_of_click(error, text):
            return f"{text}{'' if text.endswith('.') else ';'} `{error.ctx.command_path} --help` shows what it takes"
        return text
    if isinstance(error, OSError) and error.errno is not None:
        where = "stdout" if error.filename is None and error.errno in IS_FULL else error.filename
        reason = error.strerror or os.strerror(error.errno)
        if where == "stdout":
            return f"stdout: {reason}: the output is incomplete: make room, or write elsewhere"
        if where is not None:
            return f"{os.fsdecode(where)}: {reason}"
        if error.errno == errno.EIO:
            return f"stdin or stdout: {reason}: read from and write to something else"
    if isinstance(error, RecursionError):
        return "what was given is nested too deeply: give something flatter"
    if isinstance(error, MemoryError):
        return "there is not enough memory for that: ask for less at once"
    return defect(error)


def defect(error: BaseException) -> str:
    """Handles an unexpected error. The log has the traceback, if there is one (``-v``, a broker's)."""
    if logging.getLogger().handlers:
        logging.getLogger("pybroker.cli").error("not foreseen", exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"not foreseen: {type(error).__name__}{place}: {error}: please report it, with what -v shows"


def tell(line: str) -> None:
    """Prints a line on stderr; ignores a full disk there."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
