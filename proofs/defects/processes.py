"""Defects of the data folder, the supervisor and its processes."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Coroutine
from typing import Any

from proofs.defects import Patch, defect
from pybroker import data_folder, loop_watch, private_files
from pybroker.cluster.node import ClusterNode
from pybroker.data_folder import Locks
from pybroker.process import diagnostics, fleet, foreground
from pybroker.process.fleet import Member
from pybroker.store import tree


@defect("pybroker/tests/test_private_files.py::test_all_files_of_a_broker_are_private_while_it_runs_and_after_a_kill")
def the_store_is_readable_by_every_user() -> list[Patch]:
    """SQLite creates its file with the mode that the umask leaves."""
    return [
        (private_files, "by_default", lambda: None),
        (tree, "_make_private", lambda file: None),
        (data_folder, "FILE", 0o644),
    ]


@defect("pybroker/process/tests/test_owner.py::test_brokers_whose_supervisor_is_killed_stop_cleanly")
def a_broker_that_stops_waits_for_a_store_that_has_gone() -> list[Patch]:
    """The supervisor kills the broker before it has closed its logs."""

    async def wait(self: ClusterNode, work: Coroutine[Any, Any, None]) -> None:
        await work

    return [(ClusterNode, "_while_store_lives", wait)]


@defect("pybroker/process/tests/test_owner.py::test_a_halted_broker_whose_supervisor_is_killed_stops_cleanly")
def a_halted_broker_outlives_its_supervisor() -> list[Patch]:
    """The broker stays halted for good, and keeps its folder locked."""
    return [(foreground, "go_on_without_parent", lambda: None)]


@defect("pybroker/process/tests/test_owner.py::test_a_closed_terminal_stops_a_broker_cleanly")
def a_closed_terminal_kills_a_broker() -> list[Patch]:
    """SIGHUP ends the broker, because the broker leaves it its default effect."""
    return [(foreground, "STOPS", (signal.SIGTERM, signal.SIGINT))]


@defect("pybroker/process/tests/test_fleet.py::test_a_broker_that_a_real_time_signal_ended_is_restarted")
def a_signal_without_a_name_ends_the_keeper() -> list[Patch]:
    """Nobody restarts the broker."""
    return [(fleet, "_signal", lambda number: signal.Signals(number).name)]


@defect(
    "pybroker/process/tests/test_members.py::test_a_broker_killed_between_two_starts_stays_down_until_it_is_restarted"
)
def a_broker_that_was_killed_between_two_processes_comes_back() -> list[Patch]:
    """The keeper does not check whether the broker was killed; it only waits for its delay."""

    async def is_wanted(self: Member) -> bool:
        return not self._stopping.is_set()

    return [(Member, "_is_wanted", is_wanted)]


@defect("pybroker/process/tests/test_members.py::test_a_broker_killed_by_the_supervisor_during_its_start_leaves_no_process")
def a_broker_that_was_killed_while_its_process_came_up_runs() -> list[Patch]:
    """At the time of the kill there was no process."""

    async def kill_and_hold(self: Member) -> None:
        self.kill()
        await self._until(lambda: self._process is None)
        self._wanted.clear()

    return [(Member, "kill_and_hold", kill_and_hold)]


@defect("pybroker/process/tests/test_fleet.py::test_another_broker_cannot_take_the_folder_of_one_that_will_be_restarted")
def the_folder_of_a_broker_that_restarts_is_free() -> list[Patch]:
    """A joining broker takes the folder, and the supervisor's own broker cannot come back."""
    return [(Locks, "reserve", lambda self, folder: None)]


@defect("pybroker/process/tests/test_start.py::test_a_failed_start_leaves_no_new_folder")
def a_start_that_fails_leaves_its_folders() -> list[Patch]:
    """A misspelt option leaves new folders behind."""
    return [(data_folder, "remove_unused", lambda folders: None)]


@defect("pybroker/tests/test_loop_watch.py::test_the_stack_is_logged_on_one_line_innermost_function_first")
def the_stack_of_a_held_loop_is_told_on_many_lines() -> list[Patch]:
    """A refused start on a slow machine prints its reason among lines that are not log lines."""
    return [(loop_watch, "stack_line", lambda frame: "\n" + "".join(traceback.format_stack(frame)).rstrip())]


@defect("pybroker/process/tests/test_diagnostics.py::test_a_broker_stops_if_nobody_reads_its_stderr")
def a_log_line_waits_for_whoever_reads_stderr() -> list[Patch]:
    """A broker whose stderr was a pipe that nobody read stood still when the pipe was full."""
    return [(diagnostics, "has_reader", lambda stream: False)]
