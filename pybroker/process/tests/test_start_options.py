"""How the options of ``start`` change the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import ConfigError, listeners
from pybroker.process.start_options import StartOptions, configure, settings_of_members

TWO = "PLAINTEXT://127.0.0.1:9092,SSL://:9093"


@pytest.mark.parametrize(("option", "value"), [("host", "0.0.0.0"), ("port", 9095)])
def test_host_or_port_is_refused_if_there_are_several_listeners(tmp_path: Path, option: str, value: object) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners={TWO}\n")
    with pytest.raises(ConfigError, match=rf"--{option} needs a single listener, but listeners=.*:1\) has 2"):
        configure(StartOptions(file=str(file), **{option: value}))  # type: ignore[arg-type]


def test_host_and_port_set_the_address_of_a_single_listener() -> None:
    settings = ("listeners=SSL://:9093,CONTROLLER://:9094", "controller.listener.names=CONTROLLER")
    options = StartOptions(settings=settings, host="127.0.0.1", port=9095)
    assert list(map(str, listeners(configure(options)))) == ["SSL://127.0.0.1:9095"]


def test_host_and_port_add_no_listener_if_all_are_for_controllers() -> None:
    settings = ("listeners=SASL_PLAINTEXT://:0", "controller.listener.names=SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match="has no listener for clients"):
        configure(StartOptions(settings=settings, host="0.0.0.0", port=9095))


def test_each_of_several_brokers_gets_its_own_port_on_every_listener() -> None:
    options = StartOptions(settings=(f"listeners={TWO}",), processes=2)
    assert [
        next(each for each in member if each.startswith("listeners="))
        for member in settings_of_members(options, configure(options))
    ] == [f"listeners={TWO}", "listeners=PLAINTEXT://127.0.0.1:9093,SSL://:9094"]
