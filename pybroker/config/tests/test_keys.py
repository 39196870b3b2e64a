"""The tables of keys: every row is sound, and values are read and written as Kafka does."""

from __future__ import annotations

import pytest

from pybroker.config import GROUPS, KEYS, TOPICS, ConfigError, Key
from pybroker.config.keys.broker_keys import BROKER_KEYS
from pybroker.config.keys.inert_keys import INERT_KEYS
from pybroker.config.keys.key import (
    ANY,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    PASSWORD,
    SHORT,
    STRING,
    Type,
    Valid,
    Value,
    any_case,
    at_least,
    between,
    format_value,
    one_of,
    parse_type,
)
from pybroker.config.keys.sasl_keys import SASL_KEYS
from pybroker.config.keys.tls_keys import TLS_KEYS

ALL = [*KEYS.values(), *TOPICS.values(), *GROUPS.values()]


def test_every_default_is_a_valid_value_of_its_type() -> None:
    for key in ALL:
        text = format_value(key.default)
        assert text is None or key.parse(text) == key.default, key.name


def test_every_key_is_documented_in_one_sentence() -> None:
    for key in ALL:
        assert key.doc.endswith("."), key.name
        assert len(key.doc) > 15, key.name


def test_the_tables_list_no_broker_key_twice() -> None:
    assert len(KEYS) == len(BROKER_KEYS) + len(TLS_KEYS) + len(SASL_KEYS) + len(INERT_KEYS)


def test_every_synonym_is_a_broker_key_of_a_matching_type() -> None:
    numbers = {INT, LONG, SHORT}
    for key in (*TOPICS.values(), *GROUPS.values()):
        for synonym in key.synonyms:
            kinds = {KEYS[synonym.name].type, key.type}
            assert len(kinds) == 1 or kinds <= numbers, key.name


def _key(kind: Type, valid: Valid = ANY) -> Key:
    return Key("some.key", kind, None, valid, HIGH, CLUSTER_WIDE, "Some key.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, " +5 ", 5),
        (INT, "-2147483648", -(1 << 31)),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", MAX_LONG),
        (DOUBLE, "0.5", 0.5),
        (DOUBLE, "1E308", 1e308),
        (LIST, "a , b,a", ("a", "b")),
        (LIST, "  ", ()),
        (STRING, " x ", "x"),
        (PASSWORD, " x ", " x "),
    ],
)
def test_a_value_is_parsed_by_kafkas_rules(kind: Type, text: str, value: Value) -> None:
    assert parse_type(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (BOOLEAN, "yes", "true or false"),
        (INT, "2147483648", "a whole number of 32 bits"),
        (INT, "1_000", "a whole number"),
        (INT, "٣", "a whole number"),
        (INT, "", "a whole number"),
        (INT, "1" * 5000, "a whole number of 32 bits"),
        (SHORT, "40000", "a whole number of 16 bits"),
        (LONG, "1.5", "a whole number"),
        (LONG, "seven", "a whole number"),
        (DOUBLE, "nan", "a number"),
        (DOUBLE, "1_0.0", "a number"),
    ],
)
def test_a_value_of_another_type_is_refused_in_plain_words(kind: Type, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"is not {told}$"):
        _key(kind).parse(text)


def test_the_error_for_a_value_with_a_unit_says_where_units_are_allowed() -> None:
    key = KEYS["log.retention.ms"]
    with pytest.raises(ConfigError, match=r"=7d is not a whole number: only pybroker's own verbs take units \(from f"):
        key.parse("7d", "f:1")
    with pytest.raises(ConfigError, match=r"is not a whole number$"):
        key.parse("a week")


@pytest.mark.parametrize(
    ("kind", "valid", "text", "complaint"),
    [
        (INT, at_least(1024), "12", "some.key=12 is below 1024 (from --set)"),
        (INT, between(1, 9), "10", "some.key=10 is above 9 (from --set)"),
        (STRING, one_of("a", "b"), "c", "some.key=c is not one of a, b (from --set)"),
        (LIST, one_of("a", "b"), "a,c", "some.key=a,c is not one of a, b (from --set)"),
        (INT, Valid(1, 9, besides=-1), "0", "some.key=0 is below 1 (from --set)"),
    ],
)
def test_an_error_names_the_key_the_value_the_reason_and_the_source(
    kind: Type, valid: Valid, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError) as error:
        _key(kind, valid).parse(text, "--set")
    assert str(error.value) == complaint


def test_a_range_may_allow_one_value_outside_it() -> None:
    assert _key(INT, Valid(1, 9, besides=-1)).parse("-1") == -1


def test_a_value_may_be_in_any_case_if_its_key_allows_that() -> None:
    assert _key(STRING, any_case("upgrade")).parse("UpGrade") == "UpGrade"
    with pytest.raises(ConfigError):
        _key(STRING, one_of("upgrade")).parse("UPGRADE")


def test_throttled_replicas_are_an_asterisk_or_pairs_of_partition_and_broker() -> None:
    key = TOPICS["leader.replication.throttled.replicas"]
    assert key.parse("*") == ("*",)
    assert key.parse("0:1,1:2") == ("0:1", "1:2")
    with pytest.raises(ConfigError, match="does not match"):
        key.parse("0:1,x")


def test_a_password_is_not_shown_in_an_error() -> None:
    with pytest.raises(ConfigError) as error:
        _key(PASSWORD, one_of("right")).parse("wrong")
    assert "wrong" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (("a", "b"), "a,b"), (0.5, "0.5"), (1.0e308, "1E308"), (7, "7")],
)
def test_a_value_is_formatted_as_kafka_formats_it(value: Value, text: str | None) -> None:
    assert format_value(value) == text
