"""Users that exist before the first client comes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker import data_folder
from pybroker.cluster.decisions.scram_changes import ScramChange, users
from pybroker.cluster.metadata.image import ResourceType
from pybroker.config import BrokerConfig, ConfigError
from pybroker.process import broker_process
from pybroker.process.secret_settings import added_scram
from pybroker.process.start_options import StartOptions, first_users
from pybroker.security.sasl.first_users import FirstUser, parse
from pybroker.server import Broker
from pybroker.tests.security.test_tls import certified
from pybroker.tests.test_server import in_loop
from pybroker.tests.waiting import PATIENCE_S
from pyclient.protocol import scram

ADMIN = "SCRAM-SHA-256=[name=admin,password=admin-secret]"


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (ADMIN, FirstUser("admin", scram.SHA_256, 4096, b"", "admin-secret")),
        ('SCRAM-SHA-512=[name="a,b", iterations=8192, password="x]\\",=y"]',
         FirstUser("a,b", scram.SHA_512, 8192, b"", 'x]",=y')),
        ("SCRAM-SHA-256=[password=a=b c,name=x]", FirstUser("x", scram.SHA_256, 4096, b"", "a=b c")),
        ('SCRAM-SHA-256=[name=x,salt="c2FsdA==",saltedpassword=c2FsdGVk,iterations=4096]',
         FirstUser("x", scram.SHA_256, 4096, b"salt", "", b"salted")),
    ],
)
def test_a_user_is_read_as_kafkas_tool_reads_it(text: str, user: FirstUser) -> None:
    found = parse(text)
    assert found == user._replace(salt=user.salt or found.salt)
    assert len(found.salt) >= 4
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("admin:hunter2", "not of the form SCRAM-SHA-256="),
        ("PLAIN=[name=a,password=hunter2]", "not of the form SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[password=hunter2]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "user a needs a password"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,saltedpassword=eA==]", "user a needs a password"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=eA==]", "with its salt"),
        ("SCRAM-SHA-256=[name=a,salt=hunter2!,saltedpassword=eA==]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]", "iterations must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,hunter2=x]", "field 2 must be one of"),
        ("SCRAM-SHA-256=[name=a,name=hunter2]", "field 2 must be one of"),
        ('SCRAM-SHA-256=[name=a,password="hunter2]', "field 2 must be one of"),
    ],
)
def test_an_invalid_user_is_refused_without_showing_the_text(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        first_users(StartOptions(add_scram=(text,)))
    assert "hunter2" not in str(caught.value)


def test_members_get_users_by_their_environment(tmp_path: Path) -> None:
    options = StartOptions(add_scram=(ADMIN, ADMIN.replace("256", "512")))
    assert "admin-secret" not in repr(options) + repr(broker_process.command(options, tmp_path, ()))
    assert added_scram(broker_process.secrets_of(options, ())) == list(options.add_scram)
    assert added_scram({}) == []


def made(folder: Path, *texts: str, set_scram: bool = False) -> Broker:
    config = BrokerConfig({"node.id": 1, "listeners": "PLAINTEXT://127.0.0.1:0"})
    plan = data_folder.plan(str(folder), 1, config.log_dirs)
    plan.create()
    return Broker(config, plan, first_users=first_users(StartOptions(add_scram=texts, set_scram=set_scram)))


def test_a_start_adds_what_is_missing_and_changes_nothing_that_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        first = made(tmp_path, ADMIN)
        await first.start()
        assert "no listener asks for a password" in caplog.text
        before = first.metadata.image.resource_configs
        await first.controller.alter_scram([ScramChange("other", 2, 4096, b"salt", b"salted")])
        await first.stop()
        again = made(tmp_path, ADMIN.replace("admin-secret", "another"), ADMIN.replace("256", "512"))
        await again.start()
        image = again.metadata.image
        assert {user.name: list(user.iterations) for user in users(image)} == {"admin": [1, 2], "other": [2]}
        for resource, configs in before.items():
            assert image.resource_configs[resource]["SCRAM-SHA-256"] == configs["SCRAM-SHA-256"]
        await again.stop()

    in_loop(scenario)


def test_users_of_run_get_their_passwords_whatever_is_stored(tmp_path: Path) -> None:
    other, eve = ADMIN.replace("admin-secret", "another"), ScramChange("eve", 1, 4096, b"salt", b"salted")

    async def scenario() -> None:
        broker = made(tmp_path, ADMIN)
        await broker.start()
        await broker.controller.alter_scram([eve, ScramChange("admin", 1, 8192, b"salt", b"salted")])
        before = broker.metadata.image.resource_configs
        await broker.stop()
        for is_set in (True, True, False):
            broker = made(tmp_path, other, set_scram=is_set)
            await broker.start()
            found = broker.metadata.image.resource_configs
            assert found[ResourceType.USER, "eve"] == before[ResourceType.USER, "eve"]
            (user,) = first_users(StartOptions(add_scram=(other,), set_scram=True))
            stored = found[ResourceType.USER, "admin"]["SCRAM-SHA-256"]
            assert user.is_met(stored)
            assert not user._replace(password="admin-secret").is_met(stored)
            before = {**before, (ResourceType.USER, "admin"): found[ResourceType.USER, "admin"]}
            await broker.stop()

    in_loop(scenario)


def test_an_unreadable_password_is_replaced() -> None:
    added, changed = (first_users(StartOptions(add_scram=(ADMIN,), set_scram=is_set))[0] for is_set in (False, True))
    assert (added.is_met("broken"), changed.is_met("broken"), added.is_met(None)) == (True, False, False)


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_user_logs_in_and_no_process_list_or_log_shows_the_password(
    tmp_path: Path, processes: int
) -> None:
    from confluent_kafka.admin import AdminClient

    _, files = certified(tmp_path)
    settings = {
        "listeners": "OUTSIDE://localhost:0,BETWEEN://localhost:0",
        "listener.security.protocol.map": "OUTSIDE:SASL_SSL,BETWEEN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "inter.broker.listener.name": "BETWEEN",
        "ssl.keystore.location": files["keys"],
    }
    command = [sys.executable, "-m", "pybroker", "start", "--data-dir", str(tmp_path / "data"), "--log-level", "debug"]
    command += ["--processes", str(processes), *(f"--set={name}={text}" for name, text in settings.items())]
    environment = {**os.environ, "PYBROKER_ADD_SCRAM": ADMIN}
    log = tmp_path / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, env=environment, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("pybroker ready: bootstrap="), log.read_text()
            admin = AdminClient({
                "bootstrap.servers": ready.split("=")[1].split()[0],
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": files["ca"],
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "admin",
                "sasl.password": "admin-secret",
            })
            assert len(admin.list_topics(timeout=PATIENCE_S).brokers) == processes
            pids = {int(pid) for pid in ready.rpartition("pids=")[2].split(",")} | {process.pid}
            shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
            assert not [each for each in shown if b"admin-secret" in each]
        finally:
            process.terminate()
    assert process.returncode == 0
    assert "admin" in log.read_text()
    assert "admin-secret" not in log.read_text()
