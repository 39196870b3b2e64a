"""Log lines: the standard library's logging to stderr, in one format.

If stderr is a file, the logging thread writes the line itself. If it is a pipe, a terminal or a socket, its reader may
stop reading. Then a separate thread writes, and no log line blocks the event loop. Up to ``MOST`` lines wait for it;
further lines are dropped and counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import stat
import sys
from collections.abc import Mapping
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler
from typing import TextIO

from cy.counted import counted
from pybroker.printable import printable

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s {who}%(name)s: %(message)s"
LOG4J = {
    **dict.fromkeys(("ALL", "TRACE", "DEBUG"), "debug"),
    **{"INFO": "info", "WARN": "warning"},
    **dict.fromkeys(("ERROR", "FATAL", "OFF"), "error"),
}
"""Levels by log4j's names."""
MOST = 5_000
"""How many lines may wait for a reader."""
PATIENCE_S = 1.0
"""How long an ending process waits until its last lines are read."""

logger = logging.getLogger(__name__)


class OneLine(logging.Formatter):
    """Writes each message on one line, even if a client has chosen names with line breaks. Tracebacks keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = printable(record.message)
        return super().formatMessage(record)


def _format(who: str) -> tuple[str, str]:
    return FORMAT.format(who=who and f"[{who}] "), "%Y-%m-%d %H:%M:%S"


def level_of(environment: Mapping[str, str]) -> str:
    """Returns the level of KAFKA_LOG4J_ROOT_LOGLEVEL, a variable of Kafka's images; ``info`` without a valid one."""
    return LOG4J.get(environment.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").strip().upper(), "info")


def set_up(level: str, who: str = "") -> None:
    """Sends the lines of ``level`` and above to stderr; ``who`` distinguishes processes with the same stderr."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    is_read = has_reader(sys.stderr)
    handler.setFormatter((logging.Formatter if is_read else OneLine)(*_format(who)))
    if is_read:
        handler = Lines(handler)
    logging.raiseExceptions = False  # a closed stderr must not end a broker
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def into_file(name: str, file: str, who: str = "") -> None:
    """Sends the lines of one logger, from INFO on, only to this file. Creates the file again if it was moved away.

    Raises OSError.
    """
    handler = WatchedFileHandler(file, encoding="utf-8")
    handler.setFormatter(OneLine(*_format(who)))
    log = logging.getLogger(name)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def flush() -> None:
    """Waits until all lines are written, but only for a short time if the reader of stderr does not read."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def has_reader(stream: TextIO | None) -> bool:
    """Returns whether the stream is a pipe or similar, where a write may block."""
    try:
        return stream is not None and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class Lines(QueueHandler):
    """Passes lines to a thread, which writes them to ``target``; never waits."""

    def __init__(self, target: logging.Handler) -> None:
        self._lines: queue.Queue[object] = queue.Queue(MOST)
        super().__init__(self._lines)
        self.setFormatter(OneLine())  # formats only the message; the target adds the other parts of the line
        self._dropped = 0
        self._writer = _Writer(self, target)
        self._writer.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queues a line. If the queue is full, drops lines until it is half empty, so that there are few gaps, each
        reported once.

        Called under the handler's lock.
        """
        self._tell_dropped()
        if self._dropped:
            self._dropped += 1
            return
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._dropped = 1

    def on_written(self) -> None:
        """Runs on the writer's thread after each written line."""
        if self._dropped:
            with self.lock or contextlib.nullcontext():
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped and self._lines.qsize() <= MOST // 2:
            lines = counted(self._dropped, "log line was", "log lines were")
            text = f"{lines} dropped, because stderr was not read"
            self._lines.put_nowait(logger.makeRecord(logger.name, logging.WARNING, __file__, 0, text, (), None))
            self._dropped = 0

    def flush(self) -> None:
        """Waits until all lines are written, but at most ``PATIENCE_S``."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, PATIENCE_S)

    def close(self) -> None:
        """Ends the thread after all lines are written."""
        self.flush()
        with contextlib.suppress(queue.Full):
            self._writer.enqueue_sentinel()
        super().close()


class _Writer(QueueListener):
    """The thread that writes the lines to the target."""

    def __init__(self, lines: Lines, target: logging.Handler) -> None:
        super().__init__(lines.queue, target)
        self._lines = lines

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        self._lines.on_written()
