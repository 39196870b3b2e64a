"""Knows all moves of logs between log dirs that have not ended, and which checkpoint entries they need.

A log may have several moves: one that has switched but not settled, and a newer one, which continues from there. Users
see the newest one. A move stays here until it has ended, so a deletion of the log, or a stop, can end them all.

Thread-safety: any thread; but ``begin`` and ``cancel`` are called on the loop's thread.
"""

from __future__ import annotations

import threading

from pybroker.log.dirs.folders import FUTURE_SUFFIX, marked_name
from pybroker.log.dirs.log_dir import HeldLog, LogDir
from pybroker.log.log import Log
from pybroker.log.moving.move import Move
from pybroker.log.removal.removals import Removals


class RunningMoves:
    """The moves of all logs of a broker."""

    def __init__(self, removals: Removals) -> None:
        self._removals = removals
        self._moves: dict[Log, list[Move]] = {}
        """The moves of each log, the oldest first."""
        self._lock = threading.Lock()

    def begin(self, log: Log, target: LogDir) -> Move | None:
        """Begins a move of ``log``, and cancels one that has not switched yet.

        Returns None if the log is already in ``target``, or is being moved there.
        """
        newest = self.newest(log)
        if newest is not None:
            if newest.target is target:
                return None
            newest.cancel()
        if log.log_dir is target:
            return None
        folder = target.file(marked_name(log.topic_partition, FUTURE_SUFFIX))
        move = Move(log, target, folder, self._leave, self._removals)
        with self._lock:
            self._moves.setdefault(log, []).append(move)
        return move

    def newest(self, log: Log) -> Move | None:
        """Returns the newest move of ``log`` that has not ended, None if there is none."""
        with self._lock:
            moves = self._moves.get(log)
            return moves[-1] if moves else None

    def of(self, log: Log) -> list[Move]:
        """Returns the moves of ``log``, the oldest first."""
        with self._lock:
            return list(self._moves.get(log, ()))

    def all(self) -> list[Move]:
        """Returns the moves of all logs, the oldest of each log first."""
        with self._lock:
            return [move for moves in self._moves.values() for move in moves]

    def checkpoint_entries(self, log_dir: LogDir) -> list[tuple[HeldLog, int]]:
        """Returns the checkpoint entries that all moves need in the dir, as ``Move.checkpoint_entries`` does.

        Among the entries of one log, that of its oldest move comes last and so overrides the others. So a start of the
        broker uses the folder that this move has left, and no unfinished copy.
        """
        with self._lock:
            newest_first = [move for moves in self._moves.values() for move in reversed(moves)]
        return [entry for move in newest_first for entry in move.checkpoint_entries(log_dir)]

    def cancel(self, log: Log) -> None:
        """Cancels all moves of ``log`` that have not switched."""
        for move in self.of(log):
            move.cancel()

    def _leave(self, move: Move) -> None:
        with self._lock:
            moves = self._moves.get(move.log, [])
            if move in moves:
                moves.remove(move)
            if not moves:
                self._moves.pop(move.log, None)
