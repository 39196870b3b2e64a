"""The client core by SASL, against a broker that lets in whom the test says."""

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
    """A client's settings."""
    known = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    return known | {"sasl_username": USER, "sasl_password": PASSWORD} | settings


async def refusal(broker, kind=SaslRefused, **settings):
    """What ``start`` raises."""
    async with client_of(broker.address, **saying(**settings)) as client:
        with pytest.raises(kind) as caught:
            await client.start(PATIENCE_S)
    return caught.value


async def first_trouble(broker, **settings):
    """Of what may be over soon, so that ``start`` goes on."""
    async with client_of(broker.address, **settings) as client:
        starting = asyncio.ensure_future(client.start(PATIENCE_S))
        while (trouble := client.nodes.bootstrap[0].trouble or client._keeper.trouble) is None:
            await asyncio.sleep(0)
        starting.cancel()
        return trouble


async def asking(client, until):
    """Asks again and again. Raises what is not retriable."""
    while not until():
        try:
            await client.send(7, Metadata, Metadata.Request(topics=[]))
        except KafkaError as error:
            if not error.retriable:
                raise


@pytest.mark.parametrize("mechanism", PASSWORDS)
@on_loop
async def test_a_client_says_who_it_is_before_it_asks_anything(mechanism):
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying(mechanism)) as client:
        door = Door(broker, "PLAIN", *scram.MECHANISMS)
        await client.start(PATIENCE_S)
        assert door.entered == 1
        apis = [api for api, _, _ in broker.requests]
        assert apis[:2] == [ApiVersions, SaslHandshake]
        assert apis.index(Metadata) > apis.index(SaslAuthenticate)
        assert {version for api, version, _ in broker.requests if api is SaslAuthenticate} == {2}


@on_loop
async def test_sasl_goes_by_tls_too():
    async with ScriptedBroker(7, listener()) as broker:
        door = Door(broker, "PLAIN")
        settings = saying("PLAIN") | trusting() | {"security_protocol": "SASL_SSL"}
        async with client_of(broker.address, **settings) as client:
            await client.start(PATIENCE_S)
        assert door.entered == 1


@on_loop
async def test_an_older_broker_is_answered_in_its_version():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        Door(broker, "PLAIN")
        broker.handlers[ApiVersions] = versions({SaslAuthenticate: 0})
        await client.start(PATIENCE_S)
        assert {version for api, version, _ in broker.requests if api is SaslAuthenticate} == {0}


@on_loop
async def test_the_settings_may_be_javas():
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
async def test_a_delegation_token_is_a_name_and_a_password_that_say_what_they_are(settings):
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying(**settings)) as client:
        door = Door(broker, "SCRAM-SHA-256")
        await client.start(PATIENCE_S)
        assert scram.read_client_first(door.said[0]).extensions == {"tokenauth": "true"}
        error = await refusal(broker, sasl_password="hush", **settings)
        assert str(error).endswith("sasl.password its hmac in base64, and has it not expired?")


@pytest.mark.parametrize("mechanism", PASSWORDS)
@on_loop
async def test_a_wrong_password_is_told_at_once_with_peer_phase_cause_and_remedy(mechanism, caplog):
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
async def test_a_mechanism_that_the_broker_does_not_have_is_told_with_those_that_it_has():
    async with ScriptedBroker(7) as broker:
        Door(broker, "PLAIN", "SCRAM-SHA-512", "bad\x1b[2J")
        error = await refusal(broker)
    assert "the broker has no SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512, bad [2J" in str(error)
    assert str(error).endswith("; set sasl.mechanism to one of the broker's")
    assert isinstance(error.cause, errors.UnsupportedSaslMechanism)


@on_loop
async def test_a_listener_without_sasl_is_told():
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
async def test_a_client_without_sasl_is_told_that_the_listener_may_ask_for_it(caplog):
    async with ScriptedBroker(7) as broker:
        broker.handlers[Metadata] = lambda *_: HANG_UP
        error = await first_trouble(broker)
    assert "is security.protocol right? This client's is PLAINTEXT" in str(error)
    told = [row for row in caplog.records if "before it answered" in row.getMessage()]
    assert len(told) == 1


@on_loop
async def test_a_broker_that_hangs_up_instead_of_an_answer_is_tried_again():
    async with ScriptedBroker(7) as broker:
        Door(broker, "PLAIN")
        broker.handlers[SaslAuthenticate] = lambda *_: HANG_UP
        error = await first_trouble(broker, **saying("PLAIN"))
    assert type(error) is ConnectionFailed
    assert error.phase == core.PHASE
    assert "the broker's log has the reason; are sasl.username and sasl.password right?" in str(error)


@on_loop
async def test_a_broker_that_does_not_answer_is_given_up_in_time():
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
async def test_a_broker_that_asks_for_too_much_work_is_refused():
    async with ScriptedBroker(7) as broker:
        Door(broker, "SCRAM-SHA-512").iterations = scram.MOST_ITERATIONS + 1
        error = await refusal(broker, mechanism="SCRAM-SHA-512")
    assert "iterations must be" in str(error)


@on_loop
async def test_what_a_broker_says_is_bounded_before_it_is_known():
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
async def test_the_work_of_a_password_is_done_once_and_not_on_the_loop(monkeypatch):
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
    """A connection may authenticate again after a moment."""
    monkeypatch.setattr(messages, "LEAST_S", 0.0)


@pytest.mark.usefixtures("often")
@on_loop
async def test_a_connection_authenticates_again_before_its_time_is_over_and_requests_wait_for_that():
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
async def test_a_user_who_is_taken_away_is_told_when_the_connection_authenticates_again():
    async with ScriptedBroker(7) as broker, client_of(broker.address, **saying("PLAIN")) as client:
        door = Door(broker, "PLAIN")
        door.lifetime_ms = 20
        await client.start(PATIENCE_S)
        door.password = "another"
        with pytest.raises(SaslRefused, match=r"are sasl\.username"):
            await asking(client, until=lambda: False)


@pytest.mark.usefixtures("often")
@on_loop
async def test_a_connection_that_is_lost_while_it_authenticates_again_is_made_again():
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
def test_a_connection_authenticates_again_in_the_last_part_of_its_time(random):
    assert 85 <= core.Sasl.renewal_in(100, lambda: random) <= 95


@pytest.mark.parametrize("granted", [0.001, 0.5, 1.0])
def test_a_broker_that_grants_a_moment_does_not_make_a_client_say_again_and_again_who_it_is(granted):
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
def test_settings_of_sasl_are_read_when_the_client_is_made(settings, told):
    async def work():
        async with client_of("h:1", **saying(**settings)):
            pass

    with pytest.raises(ConfigError, match=told) as caught:
        asyncio.run(work())
    assert "hush" not in str(caught.value)


def test_settings_of_sasl_without_its_protocol_are_told_to_have_no_effect(caplog):
    async def work():
        async with client_of("h:1", sasl_username="a", sasl_password="hush"):
            pass

    asyncio.run(work())
    assert "sasl.username, sasl.password has no effect, no name is sent: set security.protocol" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.nightly
def test_a_client_in_plain_text_imports_nothing_of_sasl():
    import subprocess

    code = (
        "import sys; from pyclient import Admin\nwith Admin('127.0.0.1:1'): pass\n"
        "print([name for name in sys.modules if name.startswith('pyclient') and ('sasl' in name or 'oauth' in name "
        "or 'scram' in name or 'jaas' in name or 'credentials' in name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
