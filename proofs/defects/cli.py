"""Defects of the command line."""

from __future__ import annotations

import os
import time
from typing import NoReturn

from proofs.defects import Patch, defect
from pybroker.cli import produce
from pybroker.cli.cluster import command as cluster
from pybroker.cli.common import ending, output, places, tables, verbs, wrong_addresses
from pybroker.cli.demo.leaving import Leaving
from pybroker.cli.log import strays


@defect("pybroker/cli/cluster/tests/test_health.py::test_a_partition_counting_an_absent_broker_is_an_error")
def a_leader_that_is_not_there_is_healthy() -> list[Patch]:
    """A partition whose leader or ISR is a dead broker seems to accept records."""

    trouble_of = cluster.trouble_of

    def all_there(partition, min_isr, there):  # type: ignore[no-untyped-def]
        return trouble_of(partition, min_isr, [partition.leader, *partition.replicas])

    return [(cluster, "trouble_of", all_there)]


@defect(
    "pybroker/cli/tests/test_one_to_three.py"
    "::test_the_topics_of_a_broker_that_became_three_get_replicas_by_the_command_that_health_names"
)
def one_replica_among_three_brokers_is_healthy() -> list[Patch]:
    """The command does not warn that the topics of the first broker have a single replica."""
    return [(cluster, "replica_troubles", lambda admin: iter(()))]


@defect(
    "pybroker/cli/log/tests/test_strays.py"
    "::test_a_log_of_a_lost_topic_that_is_not_a_stray_yet_is_adopted_too"
)
def logs_that_are_not_yet_strays_are_left_behind() -> list[Patch]:
    """A topic comes back without the records of its most complete replica."""
    return [(strays, "not_yet_strays", lambda log_dirs, found: [])]


@defect("pybroker/cli/tests/test_ending.py::test_a_signal_ends_a_benchmark_with_its_own_exit_code_and_leaves_no_topic")
def every_signal_is_a_failure() -> list[Patch]:
    """A command that a signal stopped has the exit code of a failed one."""
    return [(ending, "after_signal", lambda: 1)]


@defect("pybroker/cli/tests/test_ending.py::test_names_that_are_not_text_are_refused_in_a_line")
def names_that_are_no_text_go_to_the_client() -> list[Patch]:
    """The client fails with a traceback for a name that is not UTF-8."""
    return [(verbs, "refuse_no_text", lambda context: None)]


@defect("pybroker/cli/common/tests/test_formats.py::test_a_negative_time_to_read_from_is_refused")
def a_negative_time_is_the_end() -> list[Patch]:
    """``topic trim --before @-1`` deletes all records."""
    return [(places, "_not_negative", lambda ms: ms)]


@defect("pybroker/cli/tests/test_ending.py::test_a_full_disk_behind_stdout_is_reported_in_a_line")
def a_full_disk_is_not_foreseen() -> list[Patch]:
    """The user sees a traceback instead of an explanation."""
    return [(ending, "IS_FULL", frozenset())]


@defect("pybroker/cli/common/tests/test_tables.py::test_a_table_fits_its_terminal")
def a_table_is_as_wide_as_it_is() -> list[Patch]:
    """The terminal wraps a line that is wider than the terminal."""
    return [(output, "fitted", lambda columns, rows, *more: tables.plain(columns, rows))]


@defect("pybroker/cli/common/tests/test_wrong_addresses.py::test_a_verb_that_waits_for_a_wrong_address_says_so")
def a_verb_waits_without_a_word() -> list[Patch]:
    """The message comes only after a minute or two, and does not name the setting."""
    return [(wrong_addresses, "wrong", lambda bootstrap: iter(()))]


@defect("pybroker/cli/tests/test_copying.py::test_a_file_from_another_cluster_is_read_before_the_copy")
def a_copy_is_half_written() -> list[Patch]:
    """``copy`` has sent records before it meets one whose partition does not exist."""
    return [(produce, "with_room", lambda cluster, topic, records, files: records)]


@defect("pybroker/cli/demo/tests/test_leaving.py::test_ctrl_c_ends_a_demo_whose_broker_hangs_at_once")
def an_interrupted_demo_waits_for_its_broker() -> list[Patch]:
    """The demo's clients spend half a minute trying to leave a group whose broker does not answer."""

    def leave_late(self: Leaving, number: int, frame: object) -> NoReturn:
        time.sleep(28)
        os._exit(1)

    return [(Leaving, "_leave", leave_late)]
