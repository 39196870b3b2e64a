"""Computes the new offsets for --reset-offsets of kafka-consumer-groups: by position, by shift, or from a file.

A file has lines of ``topic,partition,offset``, or for several groups ``group,topic,partition,offset``. --export writes
the same lines.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

import click

from pybroker.cli.common.places import EARLIEST, LATEST, OFFSET, TIME, Spot, milliseconds
from pybroker.cli.common.verbs import Failure, misuse
from pyclient import TopicPartition

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
UNITS_S = (86_400, 3600, 60, 1)
Offsets = dict[TopicPartition, int]
Plan = dict[str | None, Offsets]
"""Offsets by group; None stands for the group of the command line."""


def target(where: Mapping[str, object]) -> Spot | int | Plan:
    """Returns a place, a number to shift by, or the offsets of a file. Raises UsageError, Failure."""
    given = {name: value for name, value in where.items() if value is not None and value is not False}
    if len(given) != 1:
        known = ", ".join("--" + name.replace("_", "-") for name in where)
        raise click.UsageError(f"--reset-offsets: use exactly one of {known}")
    ((name, value),) = given.items()
    words: dict[str, Spot | int] = {"to_earliest": Spot(EARLIEST), "to_latest": Spot(LATEST), "to_current": 0}
    if name in words:
        return words[name]
    with misuse(f"--{name.replace('_', '-')} {value}"):
        if name == "to_datetime":
            return Spot(TIME, milliseconds(str(value), UTC))
        if name == "by_duration":
            return Spot(TIME, max(round((time.time() - seconds(str(value))) * 1000), 0))
    if name == "from_file":
        return read_plan(str(value))
    return Spot(OFFSET, int(str(value))) if name == "to_offset" else int(str(value))


def seconds(text: str) -> float:
    """Converts an ISO 8601 duration to seconds. Raises ValueError."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError("a duration must have the form PnDTnHnMnS, as in PT1H30M")
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), UNITS_S, strict=True))


def read_plan(path: str) -> Plan:
    """Reads a plan from a file. Raises Failure."""
    plan: Plan = {}
    try:
        for row in csv.reader(Path(path).read_text(encoding="utf-8-sig").splitlines()):
            *group, topic, partition, offset = row
            if len(group) > 1:
                raise ValueError(f"{len(row)} columns")
            plan.setdefault(group[0] if group else None, {})[TopicPartition(topic, int(partition))] = int(offset)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise Failure(f"{path}: {error}: a line must be topic,partition,offset or group,topic,…") from error
    return plan


def exported(plan: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """Returns the content of a plan's file."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for group, offsets in plan.items():
        rows.writerows((*([group] if len(plan) > 1 else []), *tp, offset) for tp, offset in sorted(offsets.items()))
    return text.getvalue()
