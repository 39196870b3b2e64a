"""``pybroker tls create``: files that a broker and its clients take as they are."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pybroker.cli.doctor.settings import errors_of
from pybroker.cli.tests.running import Shell
from pybroker.config.sources import from_file
from pyclient.config import ADMIN, load
from pyclient.security import client_context, server_context
from pyclient.security.tests.test_contexts import meet

shell = Shell("127.0.0.1:1")


def settings(text: str, folder: Path) -> dict[str, str]:
    """Returns the settings in printed lines, without their comments."""
    file = folder / "shown.properties"
    file.write_text("".join(line.removeprefix("# ") + "\n" for line in text.splitlines() if "=" in line))
    return {name: each.text for name, each in from_file(str(file)).items()}


@pytest.mark.parametrize("hosts", [(), ("kafka-1.example", "10.0.0.7", "::1", "b\u00fccher.example")])
def test_a_server_and_a_client_connect_by_the_settings_that_are_shown(hosts: tuple[str, ...], tmp_path: Path) -> None:
    shown = shell.done("tls", "create", tmp_path / "made", *hosts).out
    server, client = shown.split("# client.properties")
    context = server_context(settings(server, tmp_path))
    assert context.verify_mode == ssl.CERT_REQUIRED
    for host in hosts or ("localhost", "127.0.0.1"):
        own = client_context(settings(client, tmp_path))
        own.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 has it by default
        _, seen = meet(context, own, host)
        assert seen.getpeercert()["subject"] == ((("commonName", "client"),),)
    with pytest.raises(ssl.SSLCertVerificationError):
        meet(context, client_context(settings(client, tmp_path)), "other.example")


def test_the_lines_for_users_with_passwords_are_shown_as_well(tmp_path: Path) -> None:
    server, client = shell.done("tls", "create", tmp_path / "made").out.split("# client.properties")
    settings("".join(line for line in server.splitlines(True) if "ssl.client.auth" not in line), tmp_path)
    assert errors_of(str(tmp_path / "shown.properties")) == []
    given = settings(client, tmp_path)
    by_jaas = {name: text for name, text in given.items() if name not in ("sasl.username", "sasl.password")}
    by_name = {name: text for name, text in given.items() if name != "sasl.jaas.config"}
    for each in (by_jaas, by_name):
        assert load(ADMIN, "h:1", each).security_protocol == "SASL_SSL"


def test_keys_are_private_and_no_file_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    shell.done("tls", "create", folder)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca-key.pem": 0o600, "server.pem": 0o600, "client.pem": 0o600}
    (folder / "ca.pem").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "ca-key.pem exists" in shell.refused("tls", "create", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_impossible_host_is_refused(tmp_path: Path) -> None:
    assert "a HOST is neither a host name" in shell.refused("tls", "create", tmp_path / "made", "a..b", code=2)
    (tmp_path / "file").touch()
    assert "file" in shell.refused("tls", "create", tmp_path / "file" / "made")
