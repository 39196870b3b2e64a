"""A lock that one thread has at a time, and that no handler of a signal leaves held."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

from cy.client.held_signals import are_held, guard
from cy.client.signal_safe_lock import SignalSafeLock

PATIENCE_S = 60


def is_free(lock):
    """Returns whether another thread may enter."""
    entered = threading.Event()

    def enter():
        with lock:
            entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return entered.is_set()


def test_a_thread_may_enter_the_lock_again_and_others_wait_for_its_last_exit():
    lock, order = SignalSafeLock(), []

    def enter():
        waits.set()
        with lock:
            order.append("other")

    waits = threading.Event()
    other = threading.Thread(target=enter)
    with lock:
        with lock:
            other.start()
            assert waits.wait(PATIENCE_S)
        order.append("owner")
    other.join(PATIENCE_S)
    assert order == ["owner", "other"]


def test_the_lock_is_free_after_an_exception():
    lock = SignalSafeLock()
    with pytest.raises(ZeroDivisionError), lock, lock:
        raise ZeroDivisionError
    assert is_free(lock)


def test_only_the_main_thread_holds_signals():
    lock, held = SignalSafeLock(), []

    def enter():
        with lock:
            held.append(are_held())

    other = threading.Thread(target=enter)
    other.start()
    other.join(PATIENCE_S)
    enter()
    assert held == [False, True]
    assert not are_held()


@pytest.mark.nightly
def test_the_lock_is_free_after_a_signal_handler_raises_anywhere():
    """Python runs signal handlers after a call into C, and in Python 3.14 entering a block is one."""
    lock = SignalSafeLock()

    def interrupt(frame, event, _):
        if event == "c_return" and frame.f_code is work.__code__:
            signal.raise_signal(signal.SIGINT)

    def work():
        with lock:
            len("")

    guard()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        sys.setprofile(None)
    assert is_free(lock)
    assert not are_held()
