"""The ``pybroker`` command, also ``python -m pybroker``."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

STOPS = (signal.SIGTERM, signal.SIGINT)
STARTS = ("start", "kafka-server-start", "kafka-server-start.sh")
VERB = re.compile(r"[a-z][a-z-]*(\.sh)?")
SIGNALLED = 128
"""The exit code of a signal is this plus its number, as in ``cli.ending``, which is imported only later."""
SCRIPT = "kafka-"
"""The prefix of the names of Kafka's scripts. The command may be called by such a name too."""


def main() -> NoReturn:
    """Runs the command and exits, without waiting for threads that a stop has left behind."""
    arguments = arguments_of(sys.argv)
    for number in STOPS:
        # # Until the broker or the verb handles these signals, there is nothing to shut down.
        code = 0 if starts_broker(arguments) else SIGNALLED + number
        signal.signal(number, lambda *_, code=code: os._exit(code))
    gc.disable()  # until the broker is ready: all objects that exist by then stay
    code = run(arguments)
    if code <= SIGNALLED:  # after a signal the rest of the output is dropped: there may be no reader
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    os._exit(code)


def arguments_of(argv: Sequence[str]) -> list[str]:
    """Returns the arguments of ``pybroker``. If the program was called by the name of one of Kafka's scripts
    (``kafka-topics.sh``), they begin with that verb.
    """
    name = os.path.basename(argv[0])
    return [*([name] if name.startswith(SCRIPT) else []), *argv[1:]]


def starts_broker(arguments: Sequence[str]) -> bool:
    """Returns whether this is ``start``, whose exit code after a signal is 0."""
    return not arguments or arguments[0] in STARTS or VERB.fullmatch(arguments[0]) is None


def run(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    try:
        from pybroker import cli

        return cli.main(arguments)
    except ModuleNotFoundError as error:
        print(f"pybroker: {missing(error.name or str(error))}", file=sys.stderr)
        return 1


def missing(module: str) -> str:
    """Returns advice about a missing module: this is the wrong Python, or the sources are not compiled."""
    from pyclient.not_compiled import COMPILED, advice

    if module.startswith(COMPILED):
        return advice()
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    activate = os.path.join(folder, ".venv", "bin", "activate")
    environment = f"`. {activate}`" if os.path.exists(activate) else "activate the environment that has it"
    return f"{sys.executable} has no module {module}, which pybroker needs: is it the right Python? {environment}"


if __name__ == "__main__":
    main()
