"""The pages of the reference that are made from tables in the code: settings, errors."""

from __future__ import annotations

import re
from typing import TypeGuard

import pyclient.consumer.errors
import pyclient.errors
import pyclient.producer.errors
from pybroker.config.keys.inert_keys import REASONS, UNMET
from pyclient import KafkaError
from pyclient.config import ADMIN, CONSUMER, PRODUCER
from pyclient.protocol import errors

MADE = "\n---\n`python -m docs.reference` makes this page from the code and its docstrings; change those.\n"
SETTINGS = """# Settings

Give settings as keywords with `_` for `.`, `Producer(linger_ms=5)`, or as `config={"linger.ms": 5}`. Names
and defaults are Kafka's, with [few exceptions](#other-defaults-than-kafkas).
"""
OTHER_DEFAULTS = """
## Other defaults than Kafka's

| Key | Kafka's default | Why it is another one here |
|---|---|---|
"""
MEANT = {
    "client.id": ("–", "logs and quotas of brokers show which client it is"),
    "receive.buffer.bytes": ("32768 for producers, else 65536", "the system finds better sizes by itself"),
    "send.buffer.bytes": ("131072", "the same"),
    "sasl.mechanism": ("GSSAPI", "Kerberos needs a library that few have, so it is set like any other mechanism"),
    "sasl.kerberos.service.name": ("–", "brokers have this name nearly everywhere"),
    "sasl.login.connect.timeout.ms": ("–", "a server of tokens that hangs does not hold the client for ever"),
    "sasl.login.read.timeout.ms": ("–", "the same"),
    "ssl.keystore.type": ("JKS", "the first bytes of the file tell"),
    "ssl.truststore.type": ("JKS", "the same"),
}
"""By key: Kafka's default, and why the client has another one. Keys without effect, and those whose value is a Python
object, are not compared.
"""
ERRORS = """# Errors

All errors derive from `KafkaError` and can be pickled. `except pyclient.errors.OffsetOutOfRange` catches one kind,
`except KafkaError` all. Each error has these attributes:

- `name`: Kafka's name of the error.
- `retriable`: the same call may succeed later. The client has already retried until its time limit.
- `fatal`: the client cannot go on and has to be closed.

## Errors of the client

| Class | Retriable | Fatal | When |
|---|---|---|---|
"""
WITHOUT_EFFECT = """# Broker settings without effect

A `server.properties` of Kafka or of a vendor starts here as it is. Some of its settings may have no effect. The log of
a start lists them; `pybroker doctor --local server.properties` lists them beforehand. Warnings
name those that you might miss. One line at level INFO names all others.

- **Keys of vendors and plug-ins** (`confluent.balancer.enable`, `logs.dir`) are ignored. One warning names them all.
- **Keys of an authorizer** (`super.users`, `allow.everyone.if.no.acl.found`) cause a warning if `authorizer.class.name`
  is not set.
- **Misspelt keys** are errors that suggest the right one. In a file, a key counts as misspelt if its first word is, or
  nearly is, the first word of one of Kafka's keys: `num.partition`. With `--set` and in `pybroker.run()` every unknown
  key is an error. Unknown `KAFKA_…` variables are ignored, with a warning each.
- **Promises of protection** that cannot be kept stop the start. They are an `authorizer.class.name` that is not Kafka's
  own, and `ssl.client.auth=required` without a listener of `SSL`. With a ZooKeeper, `zookeeper.set.acl` and
  `zookeeper.ssl.client.enable` are, too. So is a listener for brokers that is not there, or a mechanism in
  `sasl.enabled.mechanisms` that is not there, on a listener of SASL. [Security](../security.md) says what is there.
- **`zookeeper.connect` beside `process.roles`** in a file is a remainder from before KRaft. It is ignored, with a
  warning. With `--zookeeper` or `--set` it counts.
- In the environment, `KAFKA_LOG4J_ROOT_LOGLEVEL` sets the `--log-level`; `CLUSTER_ID` is ignored, with a warning.

## Settings that cause a warning

These keys ask for a feature that pybroker does not have. If one has another value than Kafka's default, the log of the
start names it.

| Why | Keys |
|---|---|"""
QUIET = """
## Settings that are not needed

These keys tune how Kafka works internally. The results are the same without them, so a start names them without a
warning.

| Why | Keys |
|---|---|"""
ANSWERED = """
## Errors of brokers

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


def without_effect_text() -> str:
    """The page of Kafka's broker keys that have no effect."""
    parts = [WITHOUT_EFFECT]
    for reason, names in by_reason(UNMET).items():
        parts.append(f"| {reason} | {names} |")
    parts.append(QUIET)
    quiet = {row[0]: reason for reason, rows in REASONS for row in rows if row[0] not in UNMET}
    for reason, names in by_reason(quiet).items():
        parts.append(f"| {reason} | {names} |")
    return "\n".join(parts) + "\n" + MADE


def by_reason(reasons: dict[str, str]) -> dict[str, str]:
    """The keys of each reason, as Markdown."""
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(reason, []).append(f"`{name}`")
    return {reason: ", ".join(names) for reason, names in found.items()}


def settings_text() -> str:
    """The page of settings, of the tables that read them."""
    parts = [SETTINGS]
    for title, table in (("Producer", PRODUCER), ("Consumer", CONSUMER), ("Admin", ADMIN)):
        parts.append(f"## {title}\n\n| Key | Default | What it is |\n|---|---|---|")
        for key in sorted(table.values()):
            values = f" One of {', '.join(f'`{word}`' for word in key.words)}." if key.words else ""
            parts.append(f"| `{key.name}` | {default_text(key.default)} | {key.doc}{values} |")
        parts.append("")
    rows = [f"| `{name}` | {kafkas} | {why} |\n" for name, (kafkas, why) in MEANT.items()]
    return "\n".join(parts) + OTHER_DEFAULTS + "".join(rows) + MADE


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
