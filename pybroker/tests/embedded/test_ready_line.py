"""The messages between an owner and its broker, without a broker."""

from __future__ import annotations

import pytest

from pybroker import BrokerFailed
from pybroker.embedded import EmbeddedBroker


class Process:
    """A fake process that has printed these lines."""

    log = "no space left"
    is_alive = False

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def line(self, deadline: float) -> str | None:
        return self._lines.pop(0) if self._lines else None

    def kill(self) -> int:
        return 2

    def forget(self) -> None: ...


def heard(*lines: str) -> tuple[str, tuple[int, ...]]:
    broker = EmbeddedBroker()
    broker._process = Process(*lines)  # type: ignore[assignment]
    return broker._ready()


def test_other_output_before_the_ready_line_is_skipped() -> None:
    assert heard("hello from sitecustomize", "> pybroker ready: bootstrap=a:1,b:2 pids=3,4") == ("a:1,b:2", (3, 4))


def test_a_broker_that_ends_without_a_ready_line_has_failed() -> None:
    with pytest.raises(BrokerFailed, match=r"exit code 2\): no space left"):
        heard("hello from sitecustomize")


def test_a_failed_start_names_arguments_of_run_and_leaves_out_the_rest_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advice = "choose another --port, or --port 0, or another --data-dir"
    monkeypatch.setattr(Process, "log", f"INFO data folder\npybroker: no: {advice}\n\n")
    with pytest.raises(BrokerFailed, match=r"choose another port=, or port=0, or another data_dir=$") as caught:
        heard()
    assert str(caught.value).startswith("the broker did not start (exit code 2): no: ")
    assert caught.value.log == Process.log


def test_listeners_that_were_given_are_not_overruled_by_a_free_port() -> None:
    assert "--port" in EmbeddedBroker()._command(0)
    broker = EmbeddedBroker(listeners="PLAINTEXT://127.0.0.1:7")
    assert "--port" not in broker._command(0)
    assert "--port" in broker._command(7), "a restart keeps the port"
