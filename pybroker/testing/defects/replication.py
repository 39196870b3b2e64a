"""Defects of ``pybroker/replication`` that were mended."""

from __future__ import annotations

from pybroker.replication import follower_session
from pybroker.testing.defects import Patch, defect

TESTS = "pybroker/replication/tests"


@defect(f"{TESTS}/test_source.py::test_a_high_watermark_in_an_answer_that_was_void_is_told_again")
def a_high_watermark_is_told_once() -> list[Patch]:
    """A follower that could make no use of the answer never hears the high watermark again, until it rises."""
    return [(follower_session, "_may_have_missed", lambda before, now: False)]
