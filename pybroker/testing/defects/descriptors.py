"""Defects of a process that runs out of file descriptors."""

from __future__ import annotations

from pybroker.log.log_dir import LogDir
from pybroker.net import limits
from pybroker.testing.defects import Patch, defect

TESTS = "pybroker/log/tests/test_descriptors.py"


@defect(f"{TESTS}::test_a_roll_without_descriptors_refuses_the_append_and_the_next_one_is_good")
def without_descriptors_a_log_dir_fails() -> list[Patch]:
    """EMFILE was taken for a failure of the disk, and ended the broker with its last log dir."""
    return [(LogDir, "refuse", LogDir.fail)]


@defect("pybroker/net/tests/test_limits.py::test_connections_leave_descriptors_to_the_logs")
def connections_take_all_descriptors() -> list[Patch]:
    """Without max.connections there was no limit."""
    return [(limits, "descriptors_for_connections", lambda: limits.UNLIMITED)]
