"""What all verbs share: groups of verbs that are imported when used, and how a verb fails.

A verb's error is one line on stderr that says what is wrong, where, and what to do: ``Failure`` (exit 1) or
click's ``UsageError`` (exit 2). This module turns Kafka's errors into one of them.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import logging
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from pybroker.cli.common.ending import end_by_signals, tell
from pybroker.cli.common.words import refuse_no_text

HINTS: Mapping[str, str] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`pybroker topic list` shows what there is",
    "TOPIC_ALREADY_EXISTS": "choose another name, or --if-not-exists",
    "GROUP_ID_NOT_FOUND": "`pybroker group list` shows what there is",
    "NON_EMPTY_GROUP": "stop its members first",
    "UNKNOWN_MEMBER_ID": "stop its members first",
    "TRANSACTIONAL_ID_NOT_FOUND": "`pybroker txn list` shows what there is",
    "CONNECTION_FAILED": "is a broker there? `{doctor}` looks, `pybroker start` starts one, -b names another",
    "handshake": "`{doctor}` finds out what answers there",
    "OFFSET_OUT_OF_RANGE": "`pybroker topic offsets` shows the range",
    "INVALID_REPLICATION_FACTOR": "`pybroker cluster describe` shows the brokers",
    "UNSUPPORTED_BY_BROKER": "`pybroker api-versions` shows what it serves",
    "SECURITY_DISABLED": "the brokers need authorizer.class.name",
    "DELEGATION_TOKEN_AUTH_DISABLED": "the brokers need delegation.token.secret.key",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "come by TLS or SASL as a user, and not by a token",
    "REQUEST_TIMED_OUT": "does the cluster work? `pybroker cluster describe` asks it",
}
"""Advice, by the name of an error. For a failed connection, advice by its phase takes precedence.

``{doctor}`` is the command that examines the same cluster.
"""


SCRIPTS_TITLE = "Kafka's scripts (their options, as in its documents)"


SAME: Mapping[str, str] = {
    **{"ls": "list", "show": "describe", "info": "describe", "get": "describe", "add": "create", "new": "create"},
    **{"make": "create", "rm": "delete", "remove": "delete", "drop": "delete", "change": "alter", "move": "reassign"},
}
"""Other words that users may type, each with the verb that means the same."""
NEAR = 0.7
"""How similar a name must be to count as mistyped: difflib's ratio."""
COMMON_OPTIONS = frozenset({"bootstrap", "profile", "settings", "verbose", "command_config", "file", "more"})
BOOTSTRAP = "bootstrap.servers"
LIKE_OURS = {"bootstrap": "-b", "profile": "-P", "command_config": "--command-config", "file": "--command-config"}
"""The doctor's options for a cluster, by the parameters of verbs and scripts."""
NO_TOPIC = re.compile(r"[Tt](here is no topic '.*)")
"""Matches the text of client or broker about an unknown topic, which may follow Kafka's own sentence."""
ADVISED = ("TLS", "SASL")
"""The beginnings of phases whose errors contain their own advice."""


class Failure(click.ClickException):
    """Raised if a verb fails: the program exits with 1."""

    exit_code = 1


class Verb(click.Command):
    """A command that is a client of a cluster, not a broker: signals end it as Ctrl-C does, in order.

    ``examples`` are the last lines of --help.
    """

    def __init__(self, *args: Any, examples: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the verb's own options first, then the options of all verbs."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for option in self.get_params(context):
            row = option.get_help_record(context) if isinstance(option, click.Option) else None
            if row is not None:
                is_common = option.name in COMMON_OPTIONS or "--help" in option.opts
                (common if is_common else own).append(row)
        for title, rows in (("Options", own), ("Common options", common)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")

    def invoke(self, context: click.Context) -> Any:
        gc.enable()
        end_by_signals()
        refuse_no_text(context)
        from pyclient.errors import ConfigError, KafkaError

        try:
            return super().invoke(context)
        except ConfigError as error:
            raise click.UsageError(str(error), context) from error
        except KafkaError as error:
            raise Failure(sentence(error)) from error
        except TimeoutError as error:
            raise Failure(f"{context.command_path}: timed out: {error}") from error


class Suggesting(click.Group):
    """Verbs below a noun. For an unknown verb, the error names the most similar one."""

    command_class = Verb

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(context, args[0]) is None and not args[0].startswith("-"):
            known = self.list_commands(context)
            raise click.UsageError(
                f"{context.command_path.removeprefix('pybroker ')} {args[0]}: no such verb:"
                f" {suggestion(args[0], known)}",
                context,
            )
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists each verb with its whole first sentence."""
        verbs = ((name, self.get_command(context, name)) for name in self.list_commands(context))
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(verb.help or "")) for name, verb in verbs if verb is not None])


def first_sentence(text: str) -> str:
    """Returns the text up to the first full stop or semicolon that ends a clause, in one line."""
    return re.split(r"[.;](?:\s|$)", " ".join(text.split()), maxsplit=1)[0] + "."


class Place(NamedTuple):
    """Where a verb is defined, and its line in --help, which needs no import."""

    module: str
    attribute: str
    summary: str


class Lazy(click.Group):
    """A group whose verbs are imported when they are used. ``scripts`` are verbs under a separate heading; their names
    may have ``.sh`` at the end.
    """

    def __init__(
        self,
        *args: Any,
        places: Mapping[str, Place] | None = None,
        scripts: Mapping[str, Place] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.places = dict(places or {})
        self.scripts = dict(scripts or {})

    def place(self, name: str) -> Place | None:
        """Returns where a verb is defined; None for an unknown verb."""
        return self.places.get(name) or self.scripts.get(name.removesuffix(".sh"))

    def list_commands(self, context: click.Context) -> list[str]:
        return [*self.places, *self.scripts]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        place = self.place(name)
        if place is None:
            return None
        found: click.Command = getattr(import_module(place.module), place.attribute)
        return found

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes options and verbs, without importing any verb."""
        known = {**self.places, **self.scripts}
        verbs = [CompletionItem(name, help=each.summary) for name, each in known.items() if name.startswith(incomplete)]
        return verbs + super(click.Group, self).shell_complete(context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, places in (("Commands", self.places), (SCRIPTS_TITLE, self.scripts)):
            if places:
                with formatter.section(title):
                    formatter.write_dl([(name, place.summary) for name, place in places.items()])


def suggestion(given: str, known: Iterable[str]) -> str:
    """Returns a similar name or a name with the same meaning; if there is neither, returns all names."""
    names = list(known)
    near = [SAME[given]] if SAME.get(given) in names else difflib.get_close_matches(given, names, 1, NEAR)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def sentence(error: BaseException, what: object = None) -> str:
    """Formats an error of Kafka in one line: its subject, its text, its name, and advice."""
    name = getattr(error, "name", type(error).__name__)
    text = " ".join(str(error).split()).rstrip(".")
    if name == "UNKNOWN_TOPIC_OR_PARTITION" and (found := NO_TOPIC.search(text)):
        text = f"t{found[1]}"
    elif what is not None and str(what) not in text:
        text = f"{what}: {text}"
    phase = getattr(error, "phase", "")
    hint = None if phase.startswith(ADVISED) else HINTS.get(phase) or HINTS.get(name)
    return f"{text} ({name})" + (f": {hint.format(doctor=doctor())}" if hint else "")


def doctor() -> str:
    """Returns the command that looks at the cluster of this verb, with its options. Those of -X may be passwords, so
    they are not shown.
    """
    words = ["pybroker", "doctor"]
    if (context := click.get_current_context(silent=True)) is not None:
        for name, option in LIKE_OURS.items():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                words += option, str(context.params[name])
        if context.params.get("settings"):
            words += "-X", "…"
    return " ".join(word if word == "…" else shlex.quote(word) for word in words)


def complain(line: str) -> None:
    """Prints a diagnostic."""
    tell(f"pybroker: {line}")


def failures(kind: str, errors: Mapping[Any, BaseException]) -> int:
    """Prints each error in a line; returns the exit code."""
    for key, error in errors.items():
        complain(sentence(error, f"{kind} {key}").replace(f"{key}: {key}: ", f"{key}: ", 1))
    return 1 if errors else 0


def without(errors: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """Leaves out the errors of this name."""
    return {key: error for key, error in errors.items() if error.name != name}


class Complaints(logging.Handler):
    """Shows log lines as diagnostics."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a log record as a diagnostic."""
        complain(record.getMessage())


@contextlib.contextmanager
def heard(name: str) -> Iterator[None]:
    """Within ``with``, shows warnings of this logger as diagnostics, unless --verbose shows them anyway."""
    logger, handler = logging.getLogger(name), Complaints(logging.WARNING)
    if not logging.getLogger().handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def misuse(what: str) -> Iterator[None]:
    """Turns a ValueError of the block into a UsageError."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(f"{what}: {error}") from error


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Reads ``key=value`` into a mapping; the last value of a key wins. Raises UsageError."""
    return dict(rows(given, option))


def settings(given: Iterable[str], option: str) -> dict[str, str]:
    """Reads ``key=value`` into a mapping, and converts times and sizes to their keys' units. Raises UsageError."""
    return {key: with_unit(key, value, option) for key, value in rows(given, option)}


def in_numbers(given: Iterable[str], option: str) -> Iterator[str]:
    """Converts units in settings for a broker; passes on a text without ``=`` unchanged. Raises UsageError."""
    for text in given:
        key, mark, value = text.partition("=")
        yield f"{key}={with_unit(key.strip(), value, option)}" if mark else text


def with_unit(key: str, value: str, option: str = "") -> str:
    """Converts the value of a broker's key, which may have a unit. Raises UsageError."""
    from pybroker.cli.common.units import taken

    try:
        return taken(key, value)
    except ValueError as error:
        raise click.UsageError(f"{option} {error}".strip()) from error


def rows(given: Iterable[str], option: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs of ``key=value`` in order; a key may occur twice. Raises UsageError."""
    for text in given:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise click.UsageError(f"{option} {text}: expected key=value")
        yield key.strip(), value
