"""The moves of logs between log dirs that have not ended yet: the one book of what moves where. Log dirs ask it of
which logs, beside their own, their checkpoint files have to tell.

A log may have several: one that has switched and not settled, and on top of it another one, which goes on from there.
Users see the newest one. Each leaves when it has ended, so a deletion of the log, or a stop, ends them all.

Thread-safety: any thread; ``begin`` and ``cancel`` on the loop's.
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
        """Another move of ``log``, and the end of one that has not switched yet. None where the log is in ``target``,
        or on its way there, already.
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
        """The last move of ``log`` that has not ended."""
        with self._lock:
            moves = self._moves.get(log)
            return moves[-1] if moves else None

    def of(self, log: Log) -> list[Move]:
        """The moves of ``log``, the oldest first."""
        with self._lock:
            return list(self._moves.get(log, ()))

    def all(self) -> list[Move]:
        """The moves of all logs, the oldest of each log first."""
        with self._lock:
            return [move for moves in self._moves.values() for move in moves]

    def told_in(self, log_dir: LogDir) -> list[tuple[HeldLog, int]]:
        """Of all moves, as ``Move.told_in``. Of those of one log the oldest comes last, which is to count: a start of
        the broker knows the folder that it left, and no unfinished copy.
        """
        with self._lock:
            newest_first = [move for moves in self._moves.values() for move in reversed(moves)]
        return [told for move in newest_first for told in move.told_in(log_dir)]

    def cancel(self, log: Log) -> None:
        """``log`` does not go where it has not arrived."""
        for move in self.of(log):
            move.cancel()

    def _leave(self, move: Move) -> None:
        with self._lock:
            moves = self._moves.get(move.log, [])
            if move in moves:
                moves.remove(move)
            if not moves:
                self._moves.pop(move.log, None)
