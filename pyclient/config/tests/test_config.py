"""Settings: names, values, complaints."""

from __future__ import annotations

import pickle
import re

import pytest

from pyclient.config import ADMIN, CONSUMER, PRODUCER, load
from pyclient.errors import ConfigError, KafkaError

TABLES = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}


def test_dots_and_underscores_name_the_same_key():
    config = load(PRODUCER, "h:1", {"batch.size": 1, "linger_ms": 2}, {"buffer_memory": 3})
    assert (config.batch_size, config["linger.ms"], config.buffer_memory) == (1, 2, 3)


def test_a_keyword_overrides_the_mapping():
    config = load(PRODUCER, "h:1", {"linger.ms": 1}, {"linger_ms": 2})
    assert config.linger_ms == 2


def test_values_may_be_the_text_of_a_properties_file():
    given = {"linger.ms": " 7", "enable.idempotence": "True", "bootstrap.servers": "a:1, b:2"}
    config = load(PRODUCER, None, given)
    assert (config.linger_ms, config.enable_idempotence) == (7, True)
    assert config.bootstrap_servers == ("a:1", "b:2")


def test_acks_may_be_a_number():
    assert load(PRODUCER, "h:1", None, {"acks": 1}).acks == "1"


@pytest.mark.parametrize(
    ("name", "meant"), [("linger.mss", "linger.ms"), ("batchsize", "batch.size")]
)
def test_an_unknown_key_is_an_error_with_a_suggestion(name, meant):
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        load(PRODUCER, "h:1", {name: 1})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("stats_cb", "metrics()"),
        ("statistics.interval.ms", "metrics()"),
        ("error_cb", "calls raise their errors"),
        ("throttle_cb", "the broker delays its answers"),
        ("logger", "logging.getLogger('pyclient')"),
        ("debug", "DEBUG"),
        ("enable.partition.eof", "at_end()"),
        ("on_delivery", "an argument of send()"),
        ("rebalance_cb", "listener="),
        ("topic", "topics="),
        ("timeout", "take a timeout in seconds"),
        ("schema.registry.url", "no client of a registry"),
        ("from_beginning", "here it is auto.offset.reset=earliest"),
        ("client.dns.lookup", "leave it out"),
        ("sasl.oauthbearer.assertion.file", "sasl.oauth.token.provider"),
    ],
)
@pytest.mark.parametrize("table", TABLES)
def test_a_key_of_librdkafka_is_answered_with_the_one_to_use_here(table, name, instead):
    with pytest.raises(ConfigError) as raised:
        load(TABLES[table], "h:1", {name: print})
    assert instead in str(raised.value)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("metadata.broker.list", "bootstrap.servers"),
        ("queue.buffering.max.ms", "linger.ms"),
        ("queue.buffering.max.kbytes", "buffer.memory"),
        ("queue.buffering.max.messages", "buffer.memory"),
        ("request.required.acks", "acks"),
        ("message.timeout.ms", "delivery.timeout.ms"),
        ("message.send.max.retries", "retries"),
        ("message.max.bytes", "max.request.size"),
        ("compression.codec", "compression.type"),
        ("compression.level", "compression.gzip.level"),
        ("partitioner", "partitioner.class"),
        ("fetch.wait.max.ms", "fetch.max.wait.ms"),
        ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
        ("queued.max.messages.kbytes", "queued.max.bytes"),
        ("auto.commit.enable", "enable.auto.commit"),
        ("socket.timeout.ms", "request.timeout.ms"),
        ("topic.metadata.refresh.interval.ms", "metadata.max.age.ms"),
        ("max_batch_size", "batch.size"),
        ("servers", "bootstrap.servers"),
        ("brokers", "bootstrap.servers"),
        ("hosts", "bootstrap.servers"),
        ("ssl_password", "ssl.key.password"),
    ],
)
@pytest.mark.parametrize("table", TABLES)
def test_a_key_of_another_client_is_answered_with_its_name_here(table, name, meant):
    assert meant in {**PRODUCER, **CONSUMER}
    with pytest.raises(ConfigError) as raised:
        load(TABLES[table], "h:1", {name: 1})
    told = f"unknown setting {name!r}: here it is {meant}"
    assert re.match(rf"{re.escape(told)}(?![.\w]*\w)", str(raised.value))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("linger_ms", "'linger_ms': a setting of producers only"),
        ("message.timeout.ms", "'message.timeout.ms': here it is delivery.timeout.ms, a setting of producers only"),
        ("queue.buffering.max.kbytes", "here it is buffer.memory, in bytes, a setting of producers only"),
        ("retries", "a setting of admin clients and producers only"),
        ("message.max.bytes", "here it is max.request.size, a setting of producers only"),
    ],
)
def test_a_setting_that_only_other_clients_have_is_refused_as_theirs(name, told):
    with pytest.raises(ConfigError, match=f"{re.escape(told)}$"):
        load(CONSUMER, "h:1", {name: 1})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("linger_ms", -1, "linger.ms=-1 is below 0"),
        ("linger_ms", "soon", "is not an integer"),
        ("batch_size", "1.5", "batch.size='1.5' is not an integer"),
        ("batch_size", "16KB", "batch.size='16KB' is not an integer: a client's settings take no units"),
        ("linger_ms", True, "is not an integer"),
        ("linger_ms", None, "is not an integer"),
        ("linger_ms", 1 << 70, "is not an integer"),
        ("enable_idempotence", 1, "is not a boolean"),
        ("compression_type", "lzma", "is not one of none, gzip"),
        ("compression_type", "snapy", r"did you mean snappy\?$"),
        ("compression_type", "GZIP", r"did you mean gzip\?$"),
        ("compression_gzip_level", 10, "is above 9"),
        ("security_protocol", "TLS", "is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl_mechanisms", "PLAIN", "it is sasl.mechanism"),
        ("sasl_plain_username", "alice", "it is sasl.username"),
        ("sasl_plain_password", "hush", "it is sasl.password"),
        ("oauth_cb", print, "it is sasl.oauth.token.provider"),
        ("sasl_oauthbearer_client_id", "x", "it is sasl.oauthbearer.client.credentials.client.id"),
        ("sasl_kerberos_domain_name", "kafka", "the host is the broker's"),
        ("ssl_ca_location", "ca.pem", "it is ssl.truststore.location"),
        ("ssl_certificate_location", "me.pem", "it is ssl.keystore.location"),
        ("ssl_key_location", "me.key", "it is ssl.keystore.location"),
        ("ssl_cafile", "ca.pem", "it is ssl.truststore.location"),
        ("ssl_truststore_lokation", "ca.pem", r"did you mean ssl_truststore_location\?$"),
    ],
)
def test_a_bad_value_is_an_error_that_names_key_and_value(name, value, text):
    with pytest.raises(ConfigError, match=text):
        load(PRODUCER, "h:1", None, {name: value})


def test_bootstrap_servers_are_required():
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        load(ADMIN)


def test_a_word_with_a_colon_is_a_prefix():
    config = load(CONSUMER, "h:1", None, {"auto_offset_reset": "by_duration:PT1H"})
    assert config.auto_offset_reset == "by_duration:PT1H"
    with pytest.raises(ConfigError, match=r"latest, earliest, none, by_duration:…: did you mean earliest\?$"):
        load(CONSUMER, "h:1", None, {"auto_offset_reset": "begining"})


@pytest.mark.parametrize("name", TABLES)
def test_every_default_is_valid_and_every_key_is_documented(name):
    for key in TABLES[name].values():
        assert key.read(key.default) == key.default, key.name
        assert key.doc, key.name


def test_a_config_error_is_a_kafka_error_and_a_value_error():
    assert issubclass(ConfigError, KafkaError)
    assert issubclass(ConfigError, ValueError)


def test_settings_can_be_pickled():
    config = load(PRODUCER, "h:1", None, {"linger_ms": 2})
    again = pickle.loads(pickle.dumps(config))
    assert (again.linger_ms, again.given) == (2, config.given)


def test_the_security_protocol_may_be_in_lower_case():
    assert load(ADMIN, "h:1", {"security.protocol": "ssl"}).security_protocol == "SSL"


def test_repr_of_settings_hides_passwords():
    given = {"ssl.key.password": "hush", "ssl.keystore.key": "hush", "ssl_truststore_password": "hush"}
    given |= dict.fromkeys(("sasl.password", "sasl.jaas.config"), "hush")
    given |= {"sasl.oauthbearer.client.credentials.client.secret": "hush"}
    for keys in TABLES.values():
        config = load(keys, "h:1", given)
        assert "hush" not in repr(config)
        assert config.ssl_key_password == "hush"
        assert "hush" not in repr(pickle.loads(pickle.dumps(config)))
    with pytest.raises(ConfigError, match=r"ssl.key.password=\[hidden\] is not a password"):
        load(ADMIN, "h:1", {"ssl.key.password": ["hush"]})
