"""The producers that a process keeps, and the driver to which the process belongs."""

from __future__ import annotations

import pytest

from pyclient.spark.kept import MOST, Kept
from pyclient.spark.sink import producers
from pyclient.spark.sink.driver import driver


class Fake:
    """A producer that can only be closed."""

    def __init__(self, config):
        self.name = config["client.id"]
        self.closed = False

    def close(self, timeout):
        self.closed = True


@pytest.fixture
def use(monkeypatch):
    monkeypatch.setattr(producers, "Producer", Fake)
    monkeypatch.setattr(producers, "_kept", Kept(producers._close))

    def one(name):
        with producers.producer_of({"client.id": name}) as producer:
            assert not producer.closed
        return producer

    return one


def test_producers_are_reused_and_the_least_recently_used_one_is_closed(use):
    first, *rest = [use(str(number)) for number in range(MOST)]
    assert use("0") is first
    use("another")
    assert [one.closed for one in (first, *rest)] == [False, True, *[False] * (MOST - 2)]


def test_the_producer_of_a_failed_task_is_closed_and_not_reused(use):
    with pytest.raises(KeyError), producers.producer_of({"client.id": "a"}) as failed:
        raise KeyError
    assert failed.closed
    assert use("a") is not failed


@pytest.fixture
def proc(tmp_path):
    def process(pid, name, parent, started):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {' '.join('0' * 17)} {started} 0 0\n")

    process(1, "init", 0, 1)
    process(10, "java", 1, 500)
    process(11, "python3) (x", 10, 600)
    process(12, "python3", 11, 700)
    process(20, "python3", 1, 800)
    boot = tmp_path / "sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("boot\n")
    return tmp_path


def test_python_processes_of_one_jvm_have_the_same_driver(proc):
    assert driver(proc, 12) == driver(proc, 11)
    assert driver(proc, 12).endswith("/boot/10/500")


def test_a_process_without_a_jvm_or_without_proc_has_no_driver(proc, tmp_path):
    assert driver(proc, 20) == driver(proc, 99) == driver(tmp_path / "nowhere", 12) == ""
