"""The doctor's findings about a listener with TLS, and about one without."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from pybroker.cli.doctor import secured
from pybroker.cli.reaching.finding import ERROR, OK, WARNING
from pybroker.cli.tests.running import Shell
from pyclient.core.security.tests.test_tls_trouble import blunt, listening
from pyclient.keywords import key_with_dots
from pyclient.security.tests.making import world

TIMEOUT = ("--timeout", 30)


def examined(address: str, folder: Path, **settings: str) -> dict[str, Any]:
    """Returns the findings by the name of the check."""
    file = folder / "client.properties"
    lines = {key_with_dots(name): value.replace("\n", "\\n") for name, value in settings.items()}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    ended = Shell(address)("doctor", "--command-config", file, "-o", "json", *TIMEOUT)
    assert ended.code == 1, ended
    return {each["check"]: each for each in json.loads(ended.out)}


def trusting(folder: Path, authority: str = "") -> dict[str, str]:
    (folder / "ca.pem").write_text(authority or world().authority)
    return {"security_protocol": "SSL", "ssl_truststore_location": str(folder / "ca.pem")}


def test_a_plaintext_client_learns_that_the_port_speaks_tls(tmp_path: Path) -> None:
    with blunt(listening()) as address:
        found = examined(address, tmp_path)[f"bootstrap {address}"]
    assert (found["level"], found["found"]) == (ERROR, "it speaks TLS")
    assert "set security.protocol=SSL and ssl.truststore.location" in found["advice"]


def test_an_untrusted_certificate_is_reported_with_the_remedy(tmp_path: Path) -> None:
    with blunt(listening()) as address:
        other = trusting(tmp_path, trustme.CA().cert_pem.bytes().decode())
        found = examined(address, tmp_path, **other)[f"TLS with {address}"]
    assert found["level"] == ERROR
    assert "signed by an unknown authority" in found["found"]
    assert found["advice"].startswith("set ssl.truststore.location")


def test_a_certificate_for_other_hosts_is_reported_with_its_names(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("broker.example")
    keys = {"ssl_keystore_key": made.private_key_pem.bytes().decode(),
            "ssl_keystore_certificate_chain": made.cert_chain_pems[0].bytes().decode()}  # fmt: skip
    with blunt(listening(**keys)) as address:
        settings = trusting(tmp_path, authority.cert_pem.bytes().decode())
        found = examined(address, tmp_path, **settings)[f"TLS with {address}"]
    assert found["found"] == "the certificate is for broker.example, not for 127.0.0.1"


def test_a_tls_client_learns_that_the_port_is_plaintext(tmp_path: Path) -> None:
    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer:
                    peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        found = examined(address, tmp_path, **trusting(tmp_path))[f"TLS with {address}"]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert found["level"] == ERROR
    assert found["advice"] == "is security.protocol right? This client's is SSL"


def test_a_wrong_client_setting_is_named(tmp_path: Path) -> None:
    with blunt(listening()) as address:
        settings = {"security_protocol": "SSL", "ssl_truststore_location": "/no/file"}
        found = examined(address, tmp_path, **settings)[f"TLS with {address}"]
    assert found["found"] == "ssl.truststore.location: /no/file: No such file or directory"


@pytest.mark.parametrize(("days", "level"), [(100, OK), (29, WARNING)])
def test_a_certificate_that_expires_soon_is_reported(days: int, level: str) -> None:
    class Shaken:
        def version(self) -> str:
            return "TLSv1.3"

        def getpeercert(self) -> dict[str, str]:
            return {"notAfter": "Jan  5 09:34:43 2030 GMT"}

    end = ssl.cert_time_to_seconds("Jan  5 09:34:43 2030 GMT")
    told = secured.agreed("TLS", Shaken(), end - days * 86_400 - 1)  # type: ignore[arg-type]
    assert told.level == level
    assert "TLSv1.3, the certificate is valid until Jan  5" in told.found
    assert (f"{days} days" in told.found) == (level == WARNING)
