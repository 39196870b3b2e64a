"""The sources of tokens, when tokens are fetched, and that only brokers see them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from pyclient.config import ADMIN, load
from pyclient.core.backoff import Backoff
from pyclient.core.security.oauth import Refused, Token, Tokens, Window, by_provider, expiry_of, unsecured
from pyclient.core.security.tests.sasl_door import Door
from pyclient.core.security.tests.test_sasl import refusal, saying
from pyclient.core.security.token_endpoint import TokenEndpoint
from pyclient.core.tests.scripted import ScriptedBroker, client_of
from pyclient.core.tests.test_client import on_loop
from pyclient.errors import ConfigError, ConnectionFailed, SaslRefused
from pyclient.tests.support import PATIENCE_S

HOUR = 3600.0
SOON = Window(0.0, 0.0, 0.0, 0.0)
KAFKAS = Window(0.8, 0.05, 60, 300)


def by_token(provider, **settings):
    given = {"sasl_username": None, "sasl_password": None, "sasl_oauth_token_provider": provider}
    return saying("OAUTHBEARER", **given, **settings)


def tokens(fetch, window=KAFKAS, clock=lambda: 0.0):
    return Tokens("source", fetch, window, Backoff(0.0, 0.0, lambda: 0.5), clock)


def sync():
    return "t1"


async def later():
    return "t1"


class Provider:
    """A token provider with the interface of kafka-python and aiokafka."""

    def token(self):
        return "t1"

    def extensions(self):
        return {"tenant": "x"}


class AsyncProvider:
    async def token(self):
        return "t1"


PROVIDERS = [sync, later, lambda: later(), lambda: ("t1", time.time() + HOUR), Provider(), AsyncProvider()]


@pytest.mark.parametrize("provider", PROVIDERS)
@on_loop
async def test_a_token_comes_from_a_function_or_an_object_plain_or_async(provider):
    async with ScriptedBroker(7) as broker, client_of(broker.address, **by_token(provider)) as client:
        door = Door(broker, "OAUTHBEARER")
        door.tokens = {"t1"}
        await client.start(PATIENCE_S)
        assert door.entered == 1
        tenant = b"tenant=x\x01" if isinstance(provider, Provider) else b""
        assert door.said == [b"n,,\x01auth=Bearer t1\x01" + tenant + b"\x01"]


@on_loop
async def test_a_token_that_the_broker_refuses_is_an_error(caplog):
    caplog.set_level(logging.DEBUG)
    async with ScriptedBroker(7) as broker:
        door = Door(broker, "OAUTHBEARER")
        error = await refusal(broker, **by_token(lambda: "hush"), mechanism="OAUTHBEARER")
        assert door.said[-1] == b"\x01"
    assert "does the broker know the token's issuer, audience and scope" in str(error)
    assert "hush" not in str(error) + caplog.text


@pytest.mark.parametrize("found", [None, 7, ("t",), ("t", "soon"), b"t"])
@on_loop
async def test_a_token_function_that_returns_no_token_is_an_error(found):
    with pytest.raises(Refused, match="must return a token"):
        await by_provider(lambda: found)()


@on_loop
async def test_a_failing_token_function_is_an_error_and_a_network_failure_is_retried():
    def raising(error):
        raise error

    async with ScriptedBroker(7) as broker:
        Door(broker, "OAUTHBEARER")
        settings = by_token(partial(raising, LookupError("no such client")))
        error = await refusal(broker, **settings, mechanism="OAUTHBEARER")
        assert str(error) == "sasl.oauth.token.provider: SASL token failed: no such client"
        assert isinstance(error.__cause__, LookupError)
        assert broker.connections == 0
        async with client_of(broker.address, **by_token(partial(raising, TimeoutError("busy")))) as client:
            starting = asyncio.ensure_future(client.start(PATIENCE_S))
            while client.nodes.bootstrap[0].trouble is None:
                await asyncio.sleep(0)
            starting.cancel()
            trouble = client.nodes.bootstrap[0].trouble
        assert (type(trouble), trouble.phase) == (ConnectionFailed, "SASL token")


@on_loop
async def test_a_token_is_fetched_once_for_all_connections_and_again_in_the_background():
    fetched, more = [], asyncio.Event()

    async def fetch():
        fetched.append(Token(f"t{len(fetched)}", HOUR))
        if len(fetched) == 3:
            more.set()
        return fetched[-1]

    kept = tokens(fetch)
    await asyncio.gather(*(kept.ready() for _ in range(5)))
    await kept.ready()
    assert (len(fetched), kept.token.value) == (1, "t0")
    kept.close()
    renewed = tokens(fetch, SOON)
    await renewed.ready()
    await more.wait()
    assert renewed.token.value in ("t1", "t2")
    renewed.close()


@on_loop
async def test_a_token_without_expiry_is_fetched_for_each_connection():
    fetched = []

    async def fetch():
        fetched.append(Token("t"))
        return fetched[-1]

    kept = tokens(fetch)
    await kept.ready()
    await kept.ready()
    assert len(fetched) == 2


@on_loop
async def test_a_valid_token_is_kept_while_its_source_fails(caplog):
    answers, now = [Token("t0", HOUR), OSError("gone"), Token("t1", 2 * HOUR)], [0.0]
    done = asyncio.Event()

    async def fetch():
        found = answers.pop(0)
        if not answers:
            done.set()
        if isinstance(found, Exception):
            raise found
        return found

    kept = tokens(fetch, SOON, lambda: now[0])
    await kept.ready()
    await done.wait()
    kept.close()
    assert "source: SASL token failed: gone; the current token is still valid for some time" in caplog.text
    answers.append(OSError("again"))
    now[0] = 3 * HOUR
    with pytest.raises(ConnectionFailed, match="again"):
        await kept.ready()


@pytest.mark.parametrize(
    ("lifetime", "random", "at"),
    [
        *[(HOUR, 0.0, 2880), (HOUR, 1.0, 3060), (1000, 1.0, 700), (400, 0.0, 100)],
        *[(360, 0.0, 288), (10, 0.0, 8), (1e9, 0.0, 86_400)],
    ],
)
def test_the_next_token_is_fetched_when_the_java_client_would(lifetime, random, at):
    assert KAFKAS.refresh_in(lifetime, lambda: random) == pytest.approx(at)


def test_the_expiry_is_read_from_the_token():
    assert expiry_of(unsecured({"sub": "a", "exp": 7})) == 7
    for value in ("", "a.b", "a.b.c", unsecured({"sub": "a"}), unsecured({"exp": "7"}), "e30.W10.", "a.!.c"):
        assert expiry_of(value) is None


@on_loop
async def test_javas_development_settings_create_an_unsigned_token():
    jaas = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope=",a,b";'
    async with ScriptedBroker(7) as broker:
        door = Door(broker, "OAUTHBEARER")
        await refusal(broker, **by_token(None), sasl_jaas_config=jaas, mechanism="OAUTHBEARER")
    token = door.said[0].split(b"\x01")[1].removeprefix(b"auth=Bearer ").decode()
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert (claims["sub"], claims["scope"], signature) == ("alice", ["a", "b"], "")
    assert claims["exp"] - claims["iat"] == HOUR


# -- an endpoint -------------------------------------------------------------------------------------------------


@contextmanager
def serving(status=200, body=b"", seen=None):
    """Starts an endpoint that always returns this answer. Returns its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            if seen is not None:
                seen.append((self.path, self.headers["Authorization"], parse_qs(sent.decode())))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token?x=1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def endpoint(url, scope=None):
    return TokenEndpoint(url, ("id", "hush"), scope, PATIENCE_S, PATIENCE_S, lambda: 1000.0)


def test_an_endpoint_returns_a_token_for_client_id_and_secret():
    seen = []
    with serving(body=b'{"access_token": "t1", "expires_in": 60}', seen=seen) as url:
        assert endpoint(url, "a b")() == Token("t1", 1060.0)
    basic = "Basic " + base64.b64encode(b"id:hush").decode()
    assert seen == [("/token?x=1", basic, {"grant_type": ["client_credentials"], "scope": ["a b"]})]


def test_the_expiry_inside_the_token_overrides_expires_in():
    own = unsecured({"exp": 5})
    with serving(body=json.dumps({"access_token": own, "expires_in": 60}).encode()) as url:
        assert endpoint(url)().expires == 5


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error": "invalid_client", "error_description": "no hush"}', "it answers 401: invalid_client: no "),
        (400, b"<html>", "it answers 400"),
        (302, b"", "it answers 302"),
        (200, b"{}", "no access_token"),
        (200, b"[1]", "no access_token"),
        (200, b"x" * (1 << 20) + b"x", "more than"),
    ],
)
def test_the_error_of_a_refusing_endpoint_hides_the_secret(status, body, told):
    with serving(status, body) as url, pytest.raises(Refused, match=told) as caught:
        endpoint(url)()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_endpoint_is_a_retriable_error(status):
    with serving(status) as url, pytest.raises(OSError, match=f"it answers {status}"):
        endpoint(url)()


def test_an_endpoint_that_does_not_speak_http_is_a_retriable_error():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(1)
                peer.sendall(b"what?\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(OSError, match=r"its answer is not HTTP|reset"):
            endpoint(f"http://127.0.0.1:{server.getsockname()[1]}")()
        thread.join()


@pytest.mark.parametrize("url", ["file:///token", "idp.example/token", "http://", "http://[::1", "https://h:0/"])
def test_an_invalid_endpoint_url_is_refused(url):
    with pytest.raises(ConfigError, match="is not http"):
        endpoint(url)
    with pytest.raises(ConfigError, match="must not have a name or password") as caught:
        endpoint("http://me:hush@idp.example/")
    assert "hush" not in str(caught.value)


@on_loop
async def test_a_client_fetches_its_token_from_the_endpoint():
    settings = by_token(None) | {
        "sasl_oauthbearer_client_credentials_client_id": "id",
        "sasl_jaas_config": 'OAuthBearerLoginModule required clientSecret="hush" extension_tenant="x";',
    }
    with serving(body=b'{"access_token": "t1", "expires_in": 3600}') as url:
        settings["sasl_oauthbearer_token_endpoint_url"] = url
        async with ScriptedBroker(7) as broker, client_of(broker.address, **settings) as client:
            door = Door(broker, "OAUTHBEARER")
            door.tokens = {"t1"}
            await client.start(PATIENCE_S)
            assert door.said == [b"n,,\x01auth=Bearer t1\x01tenant=x\x01\x01"]


@on_loop
async def test_an_unreachable_endpoint_is_named_in_the_error():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = by_token(None) | {
        "sasl_oauthbearer_client_credentials_client_id": "id",
        "sasl_oauthbearer_client_credentials_client_secret": "hush",
        "sasl_oauthbearer_token_endpoint_url": f"http://127.0.0.1:{port}/",
    }
    async with client_of("127.0.0.1:1", **settings) as client:
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: SASL token failed: .*refused") as caught:
            await client.start(0.2)
    assert not isinstance(caught.value, SaslRefused)


def test_repr_of_tokens_and_settings_hides_secrets():
    def ask(secret):
        return secret

    config = load(ADMIN, "h:1", by_token(partial(ask, "hush")) | {"sasl_password": "hush"})
    assert "hush" not in repr(config)
    assert "hush" not in repr(Token("hush", None, {"a": "hush"}))
