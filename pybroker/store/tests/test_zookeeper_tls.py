"""TLS to ZooKeeper, without a server: the settings, and how kazoo waits for data."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pybroker.config import BrokerConfig, ConfigError
from pybroker.data_folder import plan
from pybroker.process.start_options import StartOptions, store_options
from pybroker.security.tls.zookeeper_tls import context_of
from pybroker.store.kazoo_sockets import Handler
from pyclient.keywords import with_dots
from pyclient.security.authority import Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, authority = tmp_path_factory.mktemp("files"), Authority("test")
    server = authority.server(["localhost"])
    texts = {"ca": authority.issued.certificate, "server": server.key + server.certificate, "broken": b"x"}
    paths = {name: folder / f"{name}.pem" for name in texts}
    for name, path in paths.items():
        path.write_bytes(texts[name])
    return paths


def settings(files: dict[str, Path], **more: str) -> BrokerConfig:
    given = {"zookeeper.connect": "a:1", "zookeeper.ssl.client.enable": "true"}
    given["zookeeper.ssl.truststore.location"] = str(files["ca"])
    return BrokerConfig(given | with_dots(more))


def test_kafkas_settings_enable_tls_to_zookeeper_and_its_checks(files: dict[str, Path]) -> None:
    config = settings(files, zookeeper_ssl_keystore_location=str(files["server"]), zookeeper_set_acl="true")
    found = store_options(StartOptions(), config, plan("d", 1, ()))
    assert found.tls is not None
    assert (found.tls.verify_mode, found.tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert [each["subject"] for each in found.tls.get_ca_certs()] == [((("commonName", "test"),),)]
    assert found.is_guarded
    lax = context_of(settings(files, zookeeper_ssl_endpoint_identification_algorithm=""))
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_REQUIRED, False)
    plain = store_options(StartOptions(), BrokerConfig({"zookeeper.connect": "a:1"}), plan("d", 1, ()))
    assert (plain.tls, plain.is_guarded) == (None, False)


def test_the_error_for_an_invalid_key_store_or_trust_store_names_its_key_and_file(files: dict[str, Path]) -> None:
    for key in ("keystore", "truststore"):
        config = settings(files, **{f"zookeeper_ssl_{key}_location": str(files["broken"])})
        with pytest.raises(ConfigError, match=rf"^zookeeper\.ssl\.{key}\.location: {files['broken']} is not one of"):
            context_of(config)


def test_select_returns_a_tls_socket_whose_bytes_are_decrypted_already(files: dict[str, Path]) -> None:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context_of(settings(files))
    server.load_cert_chain(files["server"])
    assert client is not None
    handler, sockets, others = Handler(1.0, client), socket.socketpair(), socket.socketpair()
    with ThreadPoolExecutor(1) as thread:
        wrapping = thread.submit(server.wrap_socket, sockets[0], server_side=True)
        near = client.wrap_socket(sockets[1], server_hostname="localhost")
        far = wrapping.result()
    with near, far, others[0], others[1]:
        far.sendall(b"twice")
        assert near.recv(1) == b"t"
        assert handler.select([near, others[0]], [], [], 0) == ([near], [], [])
        others[1].sendall(b"x")
        assert handler.select([near, others[0]], [], [], 0) == ([near, others[0]], [], [])
        assert near.recv(9) == b"wice"
        assert handler.select([near, others[0]], [], [], 0) == ([others[0]], [], [])
