"""Two log dirs have a log of one name: which one is it?

This happens if a move is cut off between its two renames, or if a dir comes back that was away while its log was
deleted or moved. Then both claim to be the log. The one that has more wins: the newer leader epoch, else the later end,
else the earlier first segment. If all are equal, the later log start wins, because that log knows of a deletion. Epochs
and offsets grow, and a copy is made of all that was there, so the log that went on has more.

The other one is called ``-delete`` where nothing is in it that the first has not. Else it is a stray, which is kept,
and taken back where it turns out to be the log of the topic that the metadata have (``strays``).
"""

from __future__ import annotations

from pybroker.log.files import partition_metadata
from pybroker.log.log import Log


def has_more(first: Log, second: Log) -> bool:
    """Whether ``first`` is the log rather than ``second``."""
    return _reach(first) > _reach(second)


def _reach(log: Log) -> tuple[int, int, int, int]:
    return log.leader_epochs.latest, log.log_end_offset, -log.first_segment_offset, log.log_start_offset


def _are_one_topic(first: Log, second: Log) -> bool:
    return first.topic_id == second.topic_id or partition_metadata.ZERO_ID in (first.topic_id, second.topic_id)


def covers(winner: Log, loser: Log) -> bool:
    """Whether every record of ``loser`` is in ``winner`` too: both are copies of one history."""
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
