"""Defects of brokers that a test or a notebook starts."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from proofs.defects import Patch, defect
from pybroker import embedded
from pybroker.embedded import EmbeddedBroker
from pybroker.process import foreground, owned_process, secret_settings
from pybroker.process.owned_process import OwnedProcess

FILE = "pybroker/tests/embedded/test_embedded.py"
FAULTS = "pybroker/tests/embedded/test_embedded_faults.py"


@defect(f"{FILE}::test_variables_that_configure_another_broker_do_not_reach_it")
def an_embedded_broker_obeys_the_environment() -> list[Patch]:
    """A test writes to the cluster in KAFKA_ADVERTISED_LISTENERS."""
    return [(embedded, "brokers_environment", embedded.environment)]


@defect("pybroker/tests/embedded/test_ready_line.py::test_other_output_before_the_ready_line_is_skipped")
def only_the_ready_line_begins_a_line() -> list[Patch]:
    """A sitecustomize that prints hides the ready line, and the start fails."""
    return [(embedded, "READY", re.compile(rf"\A{embedded.READY.pattern}"))]


@defect(f"{FILE}::test_an_interrupt_of_the_whole_process_group_leaves_the_broker_alone")
def an_interrupt_ends_the_embedded_broker_too() -> list[Patch]:
    """The broker is in the process group of its owner, so Ctrl-C in the terminal reaches the broker too."""

    class SameSession(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, start_new_session: bool, **options: Any) -> None:
            super().__init__(*arguments, **options)

    class Module:
        Popen = SameSession
        PIPE = subprocess.PIPE
        TimeoutExpired = subprocess.TimeoutExpired

    return [(owned_process, "subprocess", Module)]


@defect(f"{FILE}::test_a_group_forms_without_the_delay_in_which_others_may_join")
def every_group_of_a_test_waits_three_seconds() -> list[Patch]:
    """Kafka's default delays the first rebalance of each group."""
    return [(embedded, "DEFAULTS", {})]


@defect(f"{FILE}::test_an_unreferenced_broker_ends")
def a_broker_that_nobody_holds_runs_on() -> list[Patch]:
    """A reference to its pipe keeps the broker alive."""
    held: list[OwnedProcess] = []
    start = OwnedProcess.start

    def start_and_hold(self: OwnedProcess, command: Sequence[str], environment: Mapping[str, str]) -> None:
        held.append(self)
        start(self, command, environment)

    return [(OwnedProcess, "start", start_and_hold), (OwnedProcess, "forget", lambda self: None)]


@defect(f"{FAULTS}::test_a_suspended_broker_is_closed_at_once_and_cleanly")
def a_halted_broker_is_waited_for() -> list[Patch]:
    """A halted broker cannot handle SIGTERM. It is killed only after ``STOP_S``."""

    def send(self: OwnedProcess, number: int) -> None:
        if self._process is not None and number != signal.SIGCONT:
            self._process.send_signal(number)

    return [(OwnedProcess, "send_signal", send)]


@defect(f"{FAULTS}::test_nothing_is_left_of_halted_brokers_when_their_owner_is_killed")
def a_halted_broker_outlives_its_owner() -> list[Patch]:
    """Nobody continues the halted broker, so it never notices that its owner is gone."""
    return [(foreground, "go_on_without_parent", lambda: None)]


@defect(f"{FAULTS}::test_a_restarted_broker_has_its_port_its_data_and_another_process")
def a_restarted_broker_takes_another_port() -> list[Patch]:
    """Clients of the restarted broker cannot connect again."""
    command = EmbeddedBroker._command
    return [(EmbeddedBroker, "_command", lambda self, port: command(self, 0))]


@defect("pybroker/process/tests/test_secret_settings.py")
def secrets_are_arguments() -> list[Patch]:
    """Every user of the machine can read the secrets in the list of processes."""
    return [(secret_settings, "is_secret", lambda name: False)]
