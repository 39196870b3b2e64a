"""Reports records that should have been read and are gone."""

from __future__ import annotations

import logging
from typing import Final

from pyclient.errors import ClientError

log = logging.getLogger(__name__)

_WHY: Final = (
    "Some data may have been lost because they are not available any more: either the data was aged out, or the "
    "topic may have been deleted before all the data in the topic was processed."
)


class DataLoss(ClientError):
    """The offsets of a partition that are gone."""

    name = "DATA_LOSS"


def report(message: str, *, fails: bool) -> None:
    """Raises DataLoss with the message, or only logs it (``failOnDataLoss``)."""
    if fails:
        more = 'If you don\'t want your query to fail on such cases, set the source option "failOnDataLoss" to "false".'
        raise DataLoss(f"{message}. {_WHY} {more}")
    log.warning("%s. %s", message, _WHY)
