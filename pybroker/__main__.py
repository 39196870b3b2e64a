"""The ``pybroker`` command, also ``python -m pybroker``."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from typing import NoReturn

STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> NoReturn:
    """Runs the command and exits, without waiting for threads that a stop has left behind."""
    for number in STOPS:
        # Until the broker listens for them itself there is nothing to shut down.
        signal.signal(number, lambda *_: os._exit(0))
    gc.disable()  # until the broker is ready: all that is made now stays
    from pybroker import cli

    code = cli.main(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
