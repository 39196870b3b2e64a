"""Signals that wait for the end of a piece of work, and the wait for one socket."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from cy.client.held_signals import are_held, guard, held_signals, readable


@pytest.fixture
def met():
    """Returns the list of the signal numbers that Python has handled so far."""
    numbers = []
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {kind: signal.signal(kind, lambda number, frame: numbers.append(number)) for kind in kinds}
    yield numbers
    for kind, handler in before.items():
        signal.signal(kind, handler)


def come(number=signal.SIGINT):
    """Sends the signal and gives Python time to run its handler."""
    signal.raise_signal(number)
    for _ in range(100):
        pass


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
def test_a_held_signal_is_handled_at_the_end_of_the_block(met, number):
    guard()
    guard()
    with held_signals:
        come(number)
        assert met == []
    assert met == [number]


@pytest.mark.nightly
def test_a_guarded_signal_outside_of_a_block_is_handled_at_once(met):
    guard()
    come()
    assert met == [signal.SIGINT]


@pytest.mark.nightly
def test_a_handler_set_later_is_held_after_the_next_guard(met):
    guard()
    signal.signal(signal.SIGINT, lambda number, frame: met.append("another"))
    come()
    assert met == ["another"]
    guard()
    with held_signals:
        come()
        assert met == ["another"]
    assert met == ["another"] * 2


@pytest.mark.nightly
def test_signals_with_default_handlers_are_not_guarded(met):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guard()
    with held_signals:
        come(signal.SIGTERM)
    assert met == []


@pytest.mark.nightly
def test_ctrl_c_is_raised_where_the_work_ends():
    ended = []

    def work():
        guard()
        with held_signals:
            come()
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ended


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_holds_no_signal(met):
    guard()
    with held_signals:
        child = os.fork()
        if child == 0:
            come()
            os._exit(0 if met else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_socket_is_readable_if_it_has_data_or_is_closed():
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            assert not readable(ours.fileno(), 0)
            theirs.send(b"x")
            assert readable(ours.fileno(), 1000)
            ours.recv(1)
        assert readable(ours.fileno(), 1000)


@pytest.mark.nightly
def test_signals_held_in_nested_blocks_are_handled_at_the_outer_end(met):
    guard()
    with held_signals:
        with held_signals:
            come()
        assert are_held()
        assert met == []
    assert not are_held()
    assert met == [signal.SIGINT]
