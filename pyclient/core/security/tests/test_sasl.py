"""The client core with SASL, against a broker that admits the user whom the test chooses."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys

import pytest

from pyclient.core.security import sasl as core
from pyclient.core.security.tests.sasl_door import PASSWORD, USER, Door
from pyclient.core.security.tests.test_tls import listener, trusting
from pyclient.core.tests.scripted import HANG_UP, SILENCE, ScriptedBroker, client_of, versions
from pyclient.core.tests.test_client import on_loop
from pyclient.errors import ConfigError, ConnectionFailed, KafkaError, SaslRefused
from pyclient.protocol import (
    ApiVersions,
    Heartbeat,
    Metadata,
    SaslAuthenticate,
    SaslHandshake,
    errors,
    scram,
)
from pyclient.protocol import sasl as messages
from pyclient.tests.support import PATIENCE_S

PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def saying(mechanism="SCRAM-SHA-256", **settings):
    """Returns a client's settings."""
    known = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    return known | {"sasl_username": USER, "sasl_password": PASSWORD} | settings


async def refusal(broker, kind=SaslRefused, **settings):
    """Returns the error that ``start`` raises."""
    async with client_of(broker.address, **saying(**settings)) as client:
        with pytest.raises(kind) as caught:
            await client.start(PATIENCE_S)
    return caught.value


async def first_trouble(broker, **settings):
    """Returns the first retriable error, after which ``start`` tries again."""
    async with client_of(broker.address, **settings) as client:
        starting = asyncio.ensure_future(client.start(PATIENCE_S))
        while (trouble := client.nodes.bootstrap[0].trouble or client._keeper.trouble) is None:
            await asyncio.sleep(0)
        starting.cancel()
        return trouble


async def asking(client, until):
    """Sends requests until the condition holds. Raises errors that are not retriable."""
    while not until():
        try:
            await client.send(7, Metadata, Metadata.Request(topics=[]))
        except KafkaError as error:
            if not error.retriable:
                raise


@pytest.mark.parametrize("mechanism", PASSWORDS)
@on_loop
async def test_a_client_authenticates_before_its_first_request(mechanism):
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying(mechanism)) as client:
        door = Door(broker, "PLAIN", *scram.MECHANISMS)
        await client.start(PATIENCE_S)
        assert door.entered == 1
        apis = [api for api, _, _ in broker.requests]
        assert apis[:2] == [ApiVersions, SaslHandshake]
        assert apis.index(Metadata) > apis.index(SaslAuthenticate)
        assert {version for api, version, _ in broker.requests if api is SaslAuthenticate} == {2}


@on_loop
async def test_sasl_works_over_tls():
    async with ScriptedBroker(7, listener()) as broker:
        door = Door(broker, "PLAIN")
        settings = saying("PLAIN") | trusting() | {"security_protocol": "SASL_SSL"}
        async with client_of(broker.address, **settings) as client:
            await client.start(PATIENCE_S)
        assert door.entered == 1


@on_loop
async def test_sasl_uses_the_version_of_an_older_broker():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        Door(broker, "PLAIN")
        broker.handlers[ApiVersions] = versions({SaslAuthenticate: 0})
        await client.start(PATIENCE_S)
        assert {version for api, version, _ in broker.requests if api is SaslAuthenticate} == {0}


@on_loop
async def test_javas_sasl_settings_are_accepted():
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    settings = saying(sasl_username=None, sasl_password=None, sasl_jaas_config=jaas)
    async with ScriptedBroker(7) as broker, client_of(broker.address, **settings) as client:
        door = Door(broker, "SCRAM-SHA-256")
        await client.start(PATIENCE_S)
        assert door.entered == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_tokenauth": True},
        {"sasl_jaas_config": 'org.apache.kafka.common.security.scram.ScramLoginModule required tokenauth="True";'},
    ],
)
@on_loop
async def test_a_delegation_token_logs_in_with_its_id_its_hmac_and_a_flag(settings):
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying(**settings)) as client:
        door = Door(broker, "SCRAM-SHA-256")
        await client.start(PATIENCE_S)
        assert scram.read_client_first(door.said[0]).extensions == {"tokenauth": "true"}
        error = await refusal(broker, sasl_password="hush", **settings)
        assert str(error).endswith("sasl.password its hmac in base64, and has it not expired?")


@pytest.mark.parametrize("mechanism", PASSWORDS)
@on_loop
async def test_a_wrong_password_is_an_error_that_names_broker_phase_cause_and_remedy(mechanism, caplog):
    caplog.set_level(logging.DEBUG)
    async with ScriptedBroker(7) as broker:
        Door(broker, *PASSWORDS)
        error = await refusal(broker, mechanism=mechanism, sasl_password="hush")
        assert (error.host, error.phase, error.name) == (broker.address, core.PHASE, "SASL_AUTHENTICATION_FAILED")
    assert str(error).startswith(f"{broker.address}: SASL authentication failed: Authentication failed during")
    assert str(error).endswith("; are sasl.username and sasl.password right?")
    assert isinstance(error, errors.SaslAuthenticationFailed)
    assert not error.retriable
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "hush" not in str(error) + repr(error) + caplog.text


@on_loop
async def test_the_error_about_an_unsupported_mechanism_lists_the_supported_ones():
    async with ScriptedBroker(7) as broker:
        Door(broker, "PLAIN", "SCRAM-SHA-512", "bad\x1b[2J")
        error = await refusal(broker)
    assert "the broker has no SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512, bad [2J" in str(error)
    assert str(error).endswith("; set sasl.mechanism to one of the broker's")
    assert isinstance(error.cause, errors.UnsupportedSaslMechanism)


@on_loop
async def test_an_error_says_that_the_listener_does_not_use_sasl():
    async with ScriptedBroker(7) as broker:
        broker.handlers[SaslHandshake] = lambda *_: SaslHandshake.Response(error_code=errors.IllegalSaslState.code)
        error = await refusal(broker)
        assert "does not use SASL; set security.protocol=PLAINTEXT, or use" in str(error)
        broker.handlers[ApiVersions] = versions({SaslHandshake: -1})
        error = await refusal(broker)
        assert "does not serve SaslHandshake; set security.protocol=PLAINTEXT, or use" in str(error)
        broker.handlers[ApiVersions] = versions({SaslHandshake: 0})
        assert "older than Kafka 1.0" in str(await refusal(broker))


@on_loop
async def test_an_error_suggests_sasl_if_the_listener_hangs_up(caplog):
    async with ScriptedBroker(7) as broker:
        broker.handlers[Metadata] = lambda *_: HANG_UP
        error = await first_trouble(broker)
    assert "is security.protocol right? This client's is PLAINTEXT" in str(error)
    told = [row for row in caplog.records if "before it answered" in row.getMessage()]
    assert len(told) == 1


@on_loop
async def test_authentication_is_retried_if_the_broker_hangs_up():
    async with ScriptedBroker(7) as broker:
        Door(broker, "PLAIN")
        broker.handlers[SaslAuthenticate] = lambda *_: HANG_UP
        error = await first_trouble(broker, **saying("PLAIN"))
    assert type(error) is ConnectionFailed
    assert error.phase == core.PHASE
    assert "the broker's log has the reason; are sasl.username and sasl.password right?" in str(error)


@on_loop
async def test_authentication_with_a_silent_broker_times_out():
    async with ScriptedBroker(7) as broker:
        Door(broker, "PLAIN")
        broker.handlers[SaslAuthenticate] = lambda *_: SILENCE
        quick = {"socket_connection_setup_timeout_ms": 50, "socket_connection_setup_timeout_max_ms": 50}
        error = await first_trouble(broker, **saying("PLAIN"), **quick)
    assert (type(error), error.phase) == (ConnectionFailed, core.PHASE)


@on_loop
async def test_a_broker_that_cannot_prove_itself_is_refused():
    async with ScriptedBroker(7) as broker:
        Door(broker, "SCRAM-SHA-256").signature = lambda mechanism, *_: bytes(mechanism.size)
        error = await refusal(broker)
    assert "does not prove that it knows the password" in str(error)
    assert Metadata not in [api for api, _, _ in broker.requests]


@on_loop
async def test_a_broker_that_demands_too_many_iterations_is_refused():
    async with ScriptedBroker(7) as broker:
        Door(broker, "SCRAM-SHA-512").iterations = scram.MOST_ITERATIONS + 1
        error = await refusal(broker, mechanism="SCRAM-SHA-512")
    assert "iterations must be" in str(error)


@on_loop
async def test_the_answers_of_an_unauthenticated_broker_are_bounded():
    async with ScriptedBroker(7) as broker:
        broker.handlers[SaslHandshake] = lambda *_: SaslHandshake.Response(mechanisms=["x" * 30_000] * 40)
        error = await first_trouble(broker, **saying("PLAIN"))
        assert "frame length" in str(error)
        text = "\x1b[31m" + "x" * 30_000
        Door(broker, "PLAIN")
        broker.handlers[SaslAuthenticate] = lambda *_: SaslAuthenticate.Response(
            error_code=errors.SaslAuthenticationFailed.code, error_message=text
        )
        error = await refusal(broker, mechanism="PLAIN")
        assert len(str(error)) < 500
        assert "\x1b" not in str(error)


@on_loop
async def test_a_password_is_hashed_once_and_outside_the_event_loop(monkeypatch):
    begun = []

    async def on_thread(loop, name, work):
        begun.append(name)
        return work()

    monkeypatch.setattr(core, "on_thread", on_thread)
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying()) as client:
        door = Door(broker, "SCRAM-SHA-256")
        await client.start(PATIENCE_S)
        for _ in range(3):
            broker.hang_up()
            while client.nodes.is_ready(7):
                await asyncio.sleep(0)
            await client.send(7, Metadata, Metadata.Request(topics=[]))
        assert door.entered == 4
    assert begun == ["scram"]


@pytest.fixture
def often(monkeypatch):
    """Lets connections authenticate again after a moment."""
    monkeypatch.setattr(messages, "LEAST_S", 0.0)


@pytest.mark.usefixtures("often")
@on_loop
async def test_a_connection_reauthenticates_before_its_session_expires_and_requests_wait():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        broker.handlers[Heartbeat] = lambda request, _: Heartbeat.Response(throttle_time_ms=request.generation_id)
        door = Door(broker, "PLAIN")
        door.lifetime_ms = 20
        await client.start(PATIENCE_S)
        number = 0
        while door.entered < 5:
            beat = Heartbeat.Request(group_id="g", generation_id=number, member_id="m")
            answer = await client.send(7, Heartbeat, beat)
            assert answer.throttle_time_ms == number
            number += 1
        assert broker.connections == 1
    apis = [api for api, _, _ in broker.requests]
    for at, api in enumerate(apis[:-1]):
        assert api is not SaslHandshake or apis[at + 1] is SaslAuthenticate


@pytest.mark.usefixtures("often")
@on_loop
async def test_a_deleted_user_gets_an_error_when_the_connection_reauthenticates():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        door = Door(broker, "PLAIN")
        door.lifetime_ms = 20
        await client.start(PATIENCE_S)
        door.password = "another"
        with pytest.raises(SaslRefused, match=r"are sasl\.username"):
            await asking(client, until=lambda: False)


@pytest.mark.usefixtures("often")
@on_loop
async def test_a_connection_lost_while_it_reauthenticates_is_opened_again():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        door = Door(broker, "PLAIN")
        door.lifetime_ms = 20
        authenticate, hung_up = broker.handlers[SaslAuthenticate], asyncio.Event()

        def hangs_up_at_the_second(request, version):
            if door.entered != 1 or hung_up.is_set():
                return authenticate(request, version)
            hung_up.set()
            return HANG_UP

        broker.handlers[SaslAuthenticate] = hangs_up_at_the_second
        await client.start(PATIENCE_S)
        door.lifetime_ms = 0
        await hung_up.wait()
        await asking(client, until=lambda: broker.connections == 2)
        assert door.entered >= 2


@pytest.mark.parametrize("random", [0.0, 0.5, 1.0])
def test_a_connection_reauthenticates_in_the_last_part_of_its_session(random):
    assert 85 <= core.Sasl.renewal_in(100, lambda: random) <= 95


@pytest.mark.parametrize("granted", [0.001, 0.5, 1.0])
def test_a_very_short_session_lifetime_does_not_cause_endless_reauthentication(granted):
    assert core.Sasl.renewal_in(granted, lambda: 0.5) == messages.LEAST_S


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sasl_mechanism": None}, "sasl.mechanism is missing: it is one of PLAIN, SCRAM-SHA-256"),
        ({"sasl_mechanism": "NTLM"}, "sasl.mechanism=NTLM is not one of PLAIN, .*, GSSAPI"),
        ({"sasl_password": None}, "sasl.password is missing: SCRAM-SHA-256 needs"),
        ({"sasl_username": None, "sasl_password": None}, "sasl.username and sasl.password are missing"),
        ({"sasl_jaas_config": "hush"}, "sasl.jaas.config: it must be `CLASS required"),
        ({"sasl_jaas_config": "a.PlainLoginModule required password=hush;"}, "is not one of SCRAM-SHA-256"),
        ({"sasl_mechanism": "PLAIN", "sasl_tokenauth": "true"}, "a delegation token logs in by SCRAM-SHA-256 or"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauth.token.provider, or"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": "hush"}, "is not a function"),
    ],
)
def test_sasl_settings_are_checked_when_the_client_is_created(settings, told):
    async def work():
        async with client_of("h:1", **saying(**settings)):
            pass

    with pytest.raises(ConfigError, match=told) as caught:
        asyncio.run(work())
    assert "hush" not in str(caught.value)


def test_a_warning_names_sasl_settings_without_effect(caplog):
    async def work():
        async with client_of("h:1", sasl_username="a", sasl_password="hush"):
            pass

    asyncio.run(work())
    assert "sasl.username, sasl.password has no effect, no name is sent: set security.protocol" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.nightly
def test_a_client_without_sasl_imports_no_sasl_module():
    import subprocess

    code = (
        "import sys; from pyclient import Admin\nwith Admin('127.0.0.1:1'): pass\n"
        "print([name for name in sys.modules if name.startswith('pyclient') and ('sasl' in name or 'oauth' in name "
        "or 'scram' in name or 'jaas' in name or 'credentials' in name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
