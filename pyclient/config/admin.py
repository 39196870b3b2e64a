"""The keys of the admin client."""

from __future__ import annotations

from typing import Final

from pyclient.config.client import CLIENT, IDLE, MINUTE
from pyclient.config.key import INT, MAX_INT, Key
from pyclient.config.table import Table, table

ADMIN: Final[Table] = table(
    "admin clients",
    CLIENT,
    (
        Key("retries", INT, MAX_INT, "how often a request is sent again, within default.api.timeout.ms", 0, MAX_INT),
        IDLE._replace(default=5 * MINUTE),
    ),
)
