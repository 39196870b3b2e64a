"""The ``pybroker`` command, also ``python -m pybroker``."""

from __future__ import annotations

import gc
import os
import signal
import sys

STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Runs the command; returns its exit code."""
    for number in STOPS:
        # Until the broker listens for them itself there is nothing to shut down.
        signal.signal(number, lambda *_: os._exit(0))
    gc.disable()  # until the broker is ready: all that is made now stays
    from pybroker import cli

    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
