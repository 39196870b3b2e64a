"""Where settings come from: properties files by Java's rules, environment, arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config import ConfigError
from pybroker.config.sources import (
    from_arguments,
    from_environment,
    from_file,
    parse_properties,
    to_properties,
)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", [("a", "b")]),
        ("a = b ", [("a", "b ")]),
        ("a : b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("  a=b", [("a", "b")]),
        ("# a=b\n! c=d\n\n   \n", []),
        ("a=b\\\n   c", [("a", "bc")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=\\\n# not a comment", [("a", "# not a comment")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a\\:b\\=c=d", [("a:b=c", "d")]),
        ("a=\\t\\n\\r\\f\\q", [("a", "\t\n\r\fq")]),
        ("a=\\u0041\\u00e9", [("a", "Aé")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=b\\", [("a", "b")]),
        ("=b", [("", "b")]),
        ("log.dirs=C:\\\\data", [("log.dirs", "C:\\data")]),
    ],
)
def test_a_properties_file_is_parsed_as_java_parses_it(text: str, entries: list[tuple[str, str]]) -> None:
    assert [(key, value) for _, key, value in parse_properties(text)] == entries


@pytest.mark.parametrize("text", ["", "a=b", " # not a comment", "C:\\data", "two\nlines\t\r\f", "é", "\\"])
def test_written_properties_are_read_back_unchanged(text: str) -> None:
    assert [(key, value) for _, key, value in parse_properties(to_properties({"a b": text}))] == [("a b", text)]


def test_a_property_has_the_number_of_the_line_on_which_it_begins() -> None:
    text = "# x\na=\\\n  1\nb=2"
    assert [(line, key) for line, key, _ in parse_properties(text)] == [(2, "a"), (4, "b")]


def test_the_error_for_an_invalid_unicode_escape_names_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        list(parse_properties("a=b\nc=\\u12"))


def test_each_setting_of_a_file_has_its_file_and_line_as_source(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# the broker\nlog.retention.hours=1\n")
    assert from_file(str(path)) == {"log.retention.hours": ("1", f"{path}:2", True)}


def test_the_error_for_an_unreadable_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties: No such file"):
        from_file(str(tmp_path / "none.properties"))
    (tmp_path / "wide").write_bytes("a=b".encode("utf-16"))
    with pytest.raises(ConfigError, match="wide: is not a text in UTF-8"):
        from_file(str(tmp_path / "wide"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_a_file_in_utf_8_or_latin_1_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("node.id=1\n# für später\nb=é\n".encode(encoding))
    assert from_file(str(path)) == {"node.id": ("1", f"{path}:1", True), "b": ("é", f"{path}:3", True)}


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_A___B_C", "a-b.c"),
        ("KAFKA_CFG_A_B", "a.b"),
    ],
)
def test_an_environment_variable_is_mapped_to_its_key(variable: str, key: str) -> None:
    assert from_environment({variable: "1", "PATH": "/bin"}) == {key: ("1", variable, True)}


def test_kafkas_environment_variable_overrides_bitnamis() -> None:
    both = {"KAFKA_A": "1", "KAFKA_CFG_A": "2"}
    assert from_environment(both) == {"a": ("1", "KAFKA_A", True)}


def test_variables_of_kafkas_scripts_and_of_kubernetes_are_not_settings() -> None:
    foreign = (
        "KAFKA_HOME KAFKA_HEAP_OPTS KAFKA_OPTS KAFKA_JMX_PORT KAFKA_LOG4J_OPTS KAFKA_PORT"
        " KAFKA_PORT_9092_TCP_ADDR KAFKA_SERVICE_HOST KAFKA_UI_SERVICE_PORT KAFKA_UI_PORT_80_TCP"
    )
    assert from_environment(dict.fromkeys(foreign.split(), "x")) == {}


def test_an_argument_has_the_form_key_equals_value() -> None:
    assert from_arguments(["a=b=c"]) == {"a": ("b=c", "--set", True)}
    for wrong in ("a", "=b"):
        with pytest.raises(ConfigError, match="key=value"):
            from_arguments([wrong])
