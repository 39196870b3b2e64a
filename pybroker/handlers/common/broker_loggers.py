"""The broker's loggers as a resource (KIP-412): names are Python's, levels log4j's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pybroker.cluster.decisions.config_changes import ConfigOperation, KeyChange
from pyclient.protocol import errors

ROOT: Final = "root"
_PACKAGES: Final = ("pybroker", "pyclient", "kafka")  # the last: Kafka's name of the audit log
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}


def levels() -> dict[str, str]:
    """Returns the effective level of each of the broker's loggers, by name."""
    manager = logging.root.manager
    names = sorted(
        name
        for name, logger in manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _PACKAGES
    )
    found = {ROOT: _level_name(logging.root)}
    return found | {name: _level_name(logging.getLogger(name)) for name in names}


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return _NAMES.get(level) or next(
        (name for name, number in _LEVELS.items() if number <= level), "TRACE"
    )


def check(changes: Sequence[KeyChange]) -> None:
    """Raises InvalidConfig or InvalidRequest if one of the changes cannot be made."""
    known = levels()
    for change in changes:
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise errors.InvalidRequest(f"{change.name}: a logger's level can only be set or deleted")
        if change.operation == ConfigOperation.SET and change.value is None:
            raise errors.InvalidRequest(f"{change.name} has no value")
        if change.name not in known:
            raise errors.InvalidConfig(f"there is no logger {change.name}")
        if change.operation == ConfigOperation.SET and change.value not in _LEVELS:
            raise errors.InvalidConfig(f"{change.value} is not a level: use one of {', '.join(_LEVELS)}")
        if change.operation == ConfigOperation.DELETE and change.name == ROOT:
            raise errors.InvalidRequest("the level of the root logger cannot be deleted")


def apply(changes: Sequence[KeyChange]) -> None:
    """Sets the levels. A logger whose level is deleted inherits its parent's again."""
    for change in changes:
        logger = logging.root if change.name == ROOT else logging.getLogger(change.name)
        if change.operation == ConfigOperation.SET:
            logger.setLevel(_LEVELS[change.value or ""])
        else:
            logger.setLevel(logging.NOTSET)
