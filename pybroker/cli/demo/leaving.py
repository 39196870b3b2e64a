"""Lets Ctrl-C end the demo at any moment, at once, without leaving files or processes.

Clients that wait for a broker, threads and progress bars would each need time to close cleanly. But the demo has
nothing to save. So the broker is killed, its folder is removed, and the process exits with 130 or 143, as every verb
does (``cli.ending``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from pybroker.cli.common.ending import SIGNALLED

if TYPE_CHECKING:
    from pybroker.embedded import EmbeddedBroker

SHOW_CURSOR = b"\x1b[?25h\n"


class Leaving:
    """Ends the demo on a signal. If ``broker`` is set, ends it too."""

    def __init__(self) -> None:
        self.broker: EmbeddedBroker | None = None

    def listen(self) -> None:
        """Lets SIGINT and SIGTERM end the process from now on."""
        with contextlib.suppress(ValueError):  # not the main thread: no signals there
            signal.signal(signal.SIGINT, self._leave)
            signal.signal(signal.SIGTERM, self._leave)

    def _leave(self, number: int, frame: object) -> NoReturn:
        if self.broker is not None:
            self.broker.abandon()
        if sys.stderr.isatty():
            with contextlib.suppress(OSError):
                os.write(sys.stderr.fileno(), SHOW_CURSOR)
        os._exit(SIGNALLED + number)
