"""The errors of the doctor, and of any other verb, about a listener with SASL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pybroker.cli.doctor import cluster as doctors_cluster
from pybroker.cli.reaching.finding import ERROR, OK, WARNING
from pybroker.cli.tests.running import Shell
from pybroker.cli.tests.scripted import serving
from pyclient.core.reports.rights import Rights
from pyclient.core.security.tests.sasl_door import PASSWORD, USER, Door
from pyclient.core.security.tests.test_tls_trouble import listening
from pyclient.core.tests.scripted import HANG_UP, ScriptedBroker
from pyclient.keywords import with_dots
from pyclient.protocol import DescribeCluster, Metadata, errors
from pyclient.protocol.acls import AclOperation
from pyclient.security.tests.making import world

RIGHT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": PASSWORD}
TIMEOUT = ("--timeout", 30)


def guarded(broker: ScriptedBroker) -> None:
    Door(broker, "PLAIN", "SCRAM-SHA-512")
    kind = DescribeCluster.Response

    def described(*_: object) -> DescribeCluster.Response:
        row = kind.DescribeClusterBroker(broker_id=7, host="127.0.0.1", port=broker.port)
        return kind(cluster_id="c", controller_id=7, brokers=[row])

    broker.handlers[DescribeCluster] = described


def closing(broker: ScriptedBroker) -> None:
    """Closes the connection of a client that has not authenticated."""
    guarded(broker)
    broker.handlers[Metadata] = lambda *_: HANG_UP


def written(folder: Path, **changed: str) -> Path:
    file = folder / "client.properties"
    settings = {"sasl.username": USER, **RIGHT, **with_dots(changed)}
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items() if text))
    return file


def examined(address: str, file: Path | None) -> dict[str, Any]:
    """Returns the doctor's findings about an address."""
    config = () if file is None else ("--command-config", file)
    ended = Shell(address)("doctor", *config, "-o", "json", *TIMEOUT)
    return {each["check"]: each for each in json.loads(ended.out)}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sasl_password": "hush"}, "are sasl.username and sasl.password right?"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "the broker has no SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512"),
        ({"sasl_mechanism": ""}, "sasl.mechanism is missing: it is one of PLAIN"),
    ],
)
def test_a_wrong_password_or_mechanism_is_reported(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    with serving(guarded) as address:
        found = examined(address, written(tmp_path, **changed))[f"bootstrap {address}"]
    assert found["level"] == ERROR
    assert told in found["found"]
    assert "hush" not in json.dumps(found)


@pytest.mark.nightly  # the doctor waits for its limit
def test_a_client_without_sasl_learns_that_the_listener_requires_it(tmp_path: Path) -> None:
    with serving(closing) as address:
        found = examined(address, None)[f"bootstrap {address}"]
    assert found["found"] == "it asks who the client is, by SASL: PLAIN, SCRAM-SHA-512"
    assert "set security.protocol=SASL_PLAINTEXT, sasl.mechanism" in found["advice"]


@pytest.mark.nightly  # the doctor waits for its limit
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_client_without_sasl_learns_that_the_listener_requires_tls_and_sasl(
    tmp_path: Path, protocol: str
) -> None:
    (tmp_path / "ca.pem").write_text(world().authority)
    file = tmp_path / "client.properties"
    trusted = f"ssl.truststore.location={tmp_path}/ca.pem\n" if protocol == "SSL" else ""
    file.write_text(f"security.protocol={protocol}\n{trusted}")
    with serving(closing, listening()) as address:
        found = examined(address, file)[f"bootstrap {address}"]
    assert found["found"] == "it speaks TLS; it asks who the client is, by SASL: PLAIN, SCRAM-SHA-512"
    assert "set security.protocol=SASL_SSL, ssl.truststore.location, sasl.mechanism" in found["advice"]


@pytest.mark.nightly  # the doctor waits for its limit
def test_a_client_that_may_connect_gets_no_report_about_sasl(tmp_path: Path) -> None:
    with serving(guarded) as address:
        found = examined(address, written(tmp_path))
    assert (found[f"bootstrap {address}"]["level"], found["cluster"]["level"]) == (OK, OK), found


def test_a_missing_right_is_reported_with_the_command_that_grants_it() -> None:
    class Denying:
        """A cluster whose admin calls are all denied."""

        def admin(self) -> Any:
            denied = errors.ClusterAuthorizationFailed()
            raise Rights(f"User:{USER}", {"cluster": AclOperation.DESCRIBE}).told(denied)

    denying: Any = Denying()
    (found,) = doctors_cluster.state(denying)
    assert found.level == WARNING
    assert found.found.endswith(f"User:{USER} needs DESCRIBE on the cluster")
    right = "--operation describe --cluster"
    command = f"pybroker acl create --allow User:{USER} {right} --command-config admin.properties"
    assert found.advice == f"an administrator grants it: `{command}`"


def test_every_verb_fails_at_once_by_one_line(tmp_path: Path) -> None:
    with serving(guarded) as address:
        file = written(tmp_path, sasl_password="hush")
        told = Shell(address).refused("topic", "list", "--command-config", file)
    assert f"{address}: SASL authentication failed: " in told
    assert "is a broker there" not in told
    assert "hush" not in told
