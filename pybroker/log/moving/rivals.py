"""Chooses between two log dirs that have a log with the same name.

Two dirs have such a log if a crash interrupts a move between its two renames. Or a missing dir comes back, after its
log was deleted or moved elsewhere. The log with more records wins: the one with the newer leader epoch, else with the
later end, else with the earlier first segment. If all are equal, the later log start wins, because that log knows of a
deletion. Epochs and offsets only grow, and a copy has everything, so the log that continued has more.

The other log becomes ``-delete`` if the winner has all its records. Otherwise it becomes a stray. A stray is kept, and
taken back if it turns out to be the log of the topic in the metadata (``strays``).
"""

from __future__ import annotations

from pybroker.log.files import partition_metadata
from pybroker.log.log import Log


def has_more(first: Log, second: Log) -> bool:
    """Returns True if ``first`` wins over ``second``."""
    return _reach(first) > _reach(second)


def _reach(log: Log) -> tuple[int, int, int, int]:
    return log.leader_epochs.latest, log.log_end_offset, -log.first_segment_offset, log.log_start_offset


def _are_one_topic(first: Log, second: Log) -> bool:
    return first.topic_id == second.topic_id or partition_metadata.ZERO_ID in (first.topic_id, second.topic_id)


def covers(winner: Log, loser: Log) -> bool:
    """Returns True if ``winner`` has every record of ``loser``, because both have the same history."""
    if not _are_one_topic(winner, loser):
        return False
    if loser.log_end_offset == loser.log_start_offset:
        return True
    epochs = loser.leader_epochs
    known = winner.leader_epochs.end_offset_for(epochs.latest, winner.log_end_offset)
    return (
        winner.first_segment_offset <= loser.log_start_offset
        and known.epoch == epochs.latest
        and loser.log_end_offset <= known.end_offset
    )
