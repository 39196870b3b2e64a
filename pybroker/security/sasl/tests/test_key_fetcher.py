"""Keys of tokens that come by HTTP: when they are fetched, from which server, and which stay if a fetch fails."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

from pybroker.config.sasl_listeners import OAuth, Remote
from pybroker.security.sasl import fetch_times
from pybroker.security.sasl.authentication import BadMessage
from pybroker.security.sasl.fetch_times import EARLY_S, FetchTimes
from pybroker.security.sasl.key_fetcher import KeyFetcher, fetch
from pybroker.security.sasl.oauth import MOST_OF_FILE, Tokens
from pybroker.security.sasl.tests.keys_server import jwks, serving
from pybroker.security.sasl.tests.test_oauth import NOW_S, RSA, signed
from pybroker.tests.waiting import until_async
from pyclient.security.authority import Authority

NEW = RSAKey.generate_key(2048, {"kid": "new"})
HOUR_S = 3600.0


def remote(url: str = "http://idp", refresh_s: float = HOUR_S, retry_s: float = 0.001) -> Remote:
    return Remote(url, refresh_s, retry_s, 10.0)


def tokens_of(source: Remote) -> Tokens:
    return Tokens("OUTSIDE", OAuth("", "https://issuer", ("kafka",), 30, "sub", source), lambda: NOW_S)


def fetching(source: Remote, scenario: Callable[[Tokens], Awaitable[None]]) -> None:
    async def run() -> None:
        tokens = tokens_of(source)
        fetcher = KeyFetcher(tokens, source, asyncio.get_running_loop())
        try:
            await fetcher.tried()
            await scenario(tokens)
        finally:
            await fetcher.stop()

    asyncio.run(run())


def test_keys_are_fetched_again_and_again() -> None:
    times = FetchTimes(remote(), 100.0)
    assert times.due_s == 100.0
    times.on_fetched(101.0)
    assert times.due_s == 101.0 + HOUR_S


def test_each_failure_doubles_the_wait_up_to_the_longest() -> None:
    times, waits = FetchTimes(remote(retry_s=0.1), 0.0), []
    for _ in range(9):
        times.on_failed(50.0)
        waits.append(times.due_s - 50.0)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])
    for _ in range(100):
        times.on_failed(50.0)
    assert times.due_s == 60.0
    times.on_fetched(60.0)
    times.on_failed(70.0)
    assert times.due_s == pytest.approx(70.1)


def test_invented_keys_cause_one_early_fetch_at_a_time() -> None:
    times = FetchTimes(remote(), 0.0)
    times.on_fetched(1.0)
    assert not times.on_unknown_key(1.0 + EARLY_S - 0.1)
    assert times.on_unknown_key(1.0 + EARLY_S)
    assert times.due_s == 1.0 + EARLY_S
    times.on_fetched(20.0)
    assert [times.on_unknown_key(20.0 + each) for each in (0.0, 5.0, EARLY_S - 0.1)] == [False, False, False]
    times.on_failed(40.0)
    assert not times.on_unknown_key(100.0)


def test_a_token_of_a_fetched_key_is_valid() -> None:
    with serving(jwks(RSA)) as server:

        async def scenario(tokens: Tokens) -> None:
            assert tokens.check(signed())[0] == "alice"
            with pytest.raises(BadMessage, match="InvalidKeyIdError"):
                tokens.check(signed(NEW))
            assert server.asked == 1

        fetching(remote(server.url), scenario)


def test_the_token_of_a_new_key_has_the_keys_fetched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_times, "EARLY_S", 0.0)
    with serving(jwks(RSA)) as server:

        async def scenario(tokens: Tokens) -> None:
            server.body = jwks(RSA, NEW)
            before = tokens.keys
            with pytest.raises(BadMessage, match="not valid: Inv"):
                tokens.check(signed(NEW))
            await until_async(lambda: tokens.keys is not before)
            assert tokens.check(signed(NEW))[0] == "alice"
            assert server.asked == 2

        fetching(remote(server.url), scenario)


def test_keys_stay_until_new_ones_are_fetched(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving(jwks(RSA)) as server:

        async def scenario(tokens: Tokens) -> None:
            for server.status, server.body in ((503, b""), (200, b"<html>")):
                asked = server.asked
                await until_async(lambda: server.asked > asked + 3)  # noqa: B023
                assert tokens.check(signed())[0] == "alice"
            server.body = jwks(NEW)
            before = tokens.keys
            await until_async(lambda: tokens.keys is not before)
            assert tokens.check(signed(NEW))[0] == "alice"
            with pytest.raises(BadMessage):
                tokens.check(signed())

        fetching(remote(server.url, refresh_s=0.001), scenario)
    told = [record.getMessage() for record in caplog.records]
    assert [each for each in told if "it answers 503; the next attempt is in" in each] == told[2:3]
    assert [each.partition(" from ")[0] for each in told] == [
        f"listener OUTSIDE: an attacker on the way to {server.url} can replace the keys, and so forge tokens: "
        "use https",
        "listener OUTSIDE has fetched the keys",
        "listener OUTSIDE: could not fetch the keys for tokens",
        "listener OUTSIDE has fetched the keys",
    ]


def test_no_token_is_valid_before_keys_are_fetched() -> None:
    with serving() as server:
        server.status = 500

        async def scenario(tokens: Tokens) -> None:
            with pytest.raises(BadMessage, match="no keys for tokens have been fetched yet"):
                tokens.check(signed())
            server.status, server.body = 200, jwks(RSA)
            await until_async(lambda: tokens.keys)
            assert tokens.check(signed())[0] == "alice"

        fetching(remote(server.url), scenario)


def test_cve_2025_27817_no_redirect_is_followed_and_no_endless_answer_is_read(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(jwks(RSA))
    with serving(jwks(RSA)) as elsewhere, serving() as server:
        for place in (elsewhere.url, keys.as_uri()):
            server.status, server.headers = 302, {"Location": place}
            with pytest.raises(OSError, match="it answers 302"):
                fetch(remote(server.url))
        assert elsewhere.asked == 0
        server.status, server.headers, server.body = 200, {}, b" " * (MOST_OF_FILE + 1)
        with pytest.raises(ValueError, match="its answer has more than"):
            fetch(remote(server.url))


def test_the_certificate_of_an_https_server_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority("test")

    def by_tls(host: str) -> ssl.SSLContext:
        issued, path = authority.server([host]), tmp_path / host
        path.write_bytes(issued.key + issued.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority.issued.certificate)
    with serving(jwks(RSA), by_tls("localhost")) as right, serving(jwks(RSA), by_tls("other")) as wrong:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch(remote(right.url))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert fetch(remote(right.url)).keys
        with pytest.raises(OSError, match=r"CERTIFICATE_VERIFY_FAILED.*localhost"):
            fetch(remote(wrong.url))
    assert (right.asked, wrong.asked) == (1, 0)
