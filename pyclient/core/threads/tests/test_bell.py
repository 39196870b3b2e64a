"""The bell wakes a thread. It may be rung in a signal handler, where waiting for a lock is forbidden."""

from __future__ import annotations

import signal
import threading

import pytest

from pyclient.core.threads.bell import Bell

PATIENCE_S = 60.0
TIMES = 5_000


def test_a_bell_that_rings_twice_ends_one_wait():
    bell = Bell()
    assert not bell.wait(0)
    bell.ring()
    bell.ring()
    assert bell.wait(PATIENCE_S)
    assert not bell.wait(0)
    bell.ring()
    bell.hush()
    assert not bell.wait(0)


def test_another_thread_ends_the_wait():
    bell = Bell()
    ringer = threading.Thread(target=bell.ring)
    ringer.start()
    assert bell.wait(PATIENCE_S)
    ringer.join()


@pytest.mark.nightly
def test_the_handler_of_a_signal_ends_the_wait_of_its_own_thread():
    bell = Bell()
    before = signal.signal(signal.SIGALRM, lambda *_: bell.ring())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        assert bell.wait(PATIENCE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("step", ["hush", "ring", "wait"])
def test_two_threads_may_ring_at_the_same_time(step):
    bell = Bell()
    failures = []

    def work():
        try:
            for _ in range(TIMES):
                bell.ring()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        bell.wait(0.001) if step == "wait" else getattr(bell, step)()
    for thread in threads:
        thread.join()
    assert not failures
