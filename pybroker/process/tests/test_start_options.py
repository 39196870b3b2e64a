"""What the options of ``start`` make of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import ConfigError, listeners
from pybroker.process.start_options import StartOptions, configure, settings_of_members

TWO = "PLAINTEXT://127.0.0.1:9092,SSL://:9093"


@pytest.mark.parametrize(("option", "value"), [("host", "0.0.0.0"), ("port", 9095)])
def test_an_address_for_several_listeners_is_refused(tmp_path: Path, option: str, value: object) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners={TWO}\n")
    with pytest.raises(ConfigError, match=rf"--{option} needs a single listener, but listeners=.*:1\) has 2"):
        configure(StartOptions(file=str(file), **{option: value}))  # type: ignore[arg-type]


def test_an_address_for_a_single_listener_is_its_own() -> None:
    settings = ("listeners=SSL://:9093,CONTROLLER://:9094", "controller.listener.names=CONTROLLER")
    options = StartOptions(settings=settings, host="127.0.0.1", port=9095)
    assert list(map(str, listeners(configure(options)))) == ["SSL://127.0.0.1:9095"]


def test_listeners_for_controllers_only_open_no_other_one() -> None:
    settings = ("listeners=SASL_PLAINTEXT://:0", "controller.listener.names=SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match="has none for clients"):
        configure(StartOptions(settings=settings, host="0.0.0.0", port=9095))


def test_several_brokers_count_up_each_of_several_listeners() -> None:
    options = StartOptions(settings=(f"listeners={TWO}",), processes=2)
    assert [
        next(each for each in member if each.startswith("listeners="))
        for member in settings_of_members(options, configure(options))
    ] == [f"listeners={TWO}", "listeners=PLAINTEXT://127.0.0.1:9093,SSL://:9094"]
