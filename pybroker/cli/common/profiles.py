"""Clusters by name: ``-P prod`` stands for an address and settings in a file.

    # ~/.config/pybroker/profiles.toml, or what $PYBROKER_PROFILES names
    [prod]
    bootstrap.servers = "kafka-1.example:9092,kafka-2.example:9092"
    client.id = "ops"

-b and -X take precedence over a profile, and a profile over $PYBROKER_BOOTSTRAP.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.verbs import BOOTSTRAP, Verb, suggestion

Profile = dict[str, str]


def file() -> Path:
    """Returns the file of profiles."""
    named = os.environ.get("PYBROKER_PROFILES")
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(named) if named else folder / "pybroker" / "profiles.toml"


def load() -> dict[str, Profile]:
    """Returns all profiles by name; none without a file. Raises UsageError."""
    import tomllib

    path = file()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path}: byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise click.UsageError(f"{path}: nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{path}: {error}") from error
    loose = [name for name, each in found.items() if not isinstance(each, dict)]
    if loose:
        raise click.UsageError(f"{path}: {loose[0]} is outside of any [profile]")
    return {name: dict(flat(each)) for name, each in found.items()}


def flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yields Kafka's keys with their values. In TOML, the dots of a key make nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, str(value).lower() if isinstance(value, bool) else str(value)


def profile(name: str) -> Profile:
    """Returns the profile with this name. Raises UsageError if there is none."""
    known = load()
    if name not in known:
        there = suggestion(name, known) if known else f"there is none in {file()}"
        raise click.UsageError(f"--profile {name}: no such profile: {there}")
    return known[name]


@click.command("profiles", cls=Verb)
@with_output
def profiles(output: str) -> None:
    """Lists the clusters that -P NAME, or $PYBROKER_PROFILE, can stand for.

    \b
    They are in ~/.config/pybroker/profiles.toml, or the file that $PYBROKER_PROFILES names:
        [prod]
        bootstrap.servers = "kafka-1.example:9092,kafka-2.example:9092"
        client.id = "ops"
    """
    found = load()
    rows = [(name, each.get(BOOTSTRAP), len(each) - (BOOTSTRAP in each)) for name, each in found.items()]
    documents = [{"name": name, "settings": each} for name, each in found.items()]
    show(output, ("name", "bootstrap", "settings"), rows, documents=documents, none="no profiles")
