"""Times and sizes with a unit, in the verbs that set keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.common.units import retention_text, size_text, taken, time_text
from pybroker.cli.tests.running import Shell
from pybroker.process.start_options import StartOptions


@pytest.mark.parametrize(
    ("key", "value", "sent"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", "90 s", "90000"),
        ("retention.ms", "2w", "1209600000"),
        ("retention.ms", "30min", "1800000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("log.retention.hours", "7d", "168"),
        ("offsets.retention.minutes", "1h", "60"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "100MB", "100000000"),
        ("max.message.bytes", "0.5KiB", "512"),
        ("cleanup.policy", "7d", "7d"),
        ("compression.gzip.level", "9", "9"),
        ("retention.ms", "week", "week"),
        ("retention.ms", "", ""),
        ("leader.replication.throttled.replicas", "0:1", "0:1"),
    ],
)
def test_a_value_with_a_unit_is_sent_as_the_number_of_its_key(key: str, value: str, sent: str) -> None:
    assert taken(key, value) == sent


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("retention.ms", "5m", "'m' is not a unit of time: use ms, s, min"),
        ("retention.ms", "7D", "not a unit of time"),
        ("retention.ms", "1GiB", "not a unit of time"),
        ("retention.ms", "1.0005s", "not a whole number of ms"),
        ("log.retention.hours", "90min", "not a whole number of hours"),
        ("segment.bytes", "1G", "'G' is not a unit of size: use B, kB"),
        ("segment.bytes", "1M", "not a unit of size"),
        ("segment.bytes", "7d", "not a unit of size"),
        ("segment.bytes", "0.1B", "not a whole number of bytes"),
        ("retention.ms", "99999999999999d", "more than fits"),
    ],
)
def test_an_ambiguous_or_unsuitable_unit_is_refused(key: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        taken(key, value)


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0ms"), (1500, "1500ms"), (60_000, "1min"), (604_800_000, "7d"), (5_400_000, "90min")]
)
def test_a_time_is_shown_in_the_greatest_unit_that_comes_out_even(ms: int, text: str) -> None:
    assert time_text(ms) == text
    assert taken("x.ms", text) == str(ms)


@pytest.mark.parametrize(("size", "text"), [(0, "0B"), (1023, "1023B"), (1 << 30, "1GiB"), (3 << 19, "1536KiB")])
def test_a_size_is_shown_in_the_greatest_unit_that_comes_out_even(size: int, text: str) -> None:
    assert size_text(size) == text
    assert taken("x.bytes", text) == str(size)


@pytest.mark.parametrize(
    ("policy", "ms", "size", "text"),
    [
        ("delete", 604_800_000, -1, "7d"),
        ("delete", 604_800_000, 1 << 30, "7d or 1GiB"),
        ("delete", -1, 1 << 30, "1GiB"),
        ("delete", -1, -1, "for ever"),
        ("compact", 604_800_000, -1, "compacted"),
        ("compact,delete", 86_400_000, -1, "1d, compacted"),
    ],
)
def test_a_retention_time_is_shown_in_words(policy: str, ms: int, size: int, text: str) -> None:
    assert retention_text(policy, ms, size) == text


def test_the_settings_of_a_start_take_units_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[StartOptions] = []
    monkeypatch.setattr("pybroker.process.supervisor.run", started.append)
    Shell().done("start", "--set", "log.retention.ms=7d", "--set", "log.segment.bytes =1GiB", "--set", "node.id=2")
    assert started[0].settings == ("log.retention.ms=604800000", "log.segment.bytes =1073741824", "node.id=2")
    told = Shell().refused("start", "--set", "log.retention.ms=5m", code=2)
    assert told.startswith("pybroker: --set log.retention.ms=5m: 'm' is not a unit of time: use ms, s, min")
    own = Shell().refused("start", "--embedded", "--set", "log.retention.ms=5m", code=2)
    assert own.startswith("pybroker: log.retention.ms=5m: 'm' is not a unit")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run() as broker:
        yield Shell(broker.bootstrap_servers)


def test_the_verbs_that_set_keys_take_units_and_a_topic_shows_its_retention(shell: Shell) -> None:
    shell.done("topic", "create", "t", "-c", "retention.ms=7d", "-c", "retention.bytes=1GiB")
    (found,) = shell.done("topic", "describe", "t", "-o", "jsonl").documents
    assert found["configs"] == {"retention.ms": "604800000", "retention.bytes": "1073741824"}
    assert found["retention"] == {"ms": 604800000, "bytes": 1073741824, "text": "7d or 1GiB"}
    assert "RETENTION\n" in shell.done("topic", "describe", "t").out
    shell.done("topic", "alter", "t", "--set", "retention.ms=36h", "--unset", "retention.bytes")
    assert shell.done("topic", "describe", "t").out.endswith("  36h\n")
    shell.done("config", "set", "topic", "t", "segment.bytes=64MiB", "cleanup.policy+=compact")
    assert "67108864" in shell.done("config", "get", "topic", "t", "segment.bytes").out
    assert shell.done("topic", "describe", "t", "-o", "csv").out.endswith(",36h, compacted\"\n".replace("36h", '"36h'))
    for words in (
        ("topic", "create", "u", "-c", "retention.ms=5m"),
        ("topic", "alter", "t", "--set", "segment.bytes=1G"),
        ("config", "set", "topic", "t", "retention.ms=1GiB"),
    ):
        assert "is not a unit of" in shell.refused(*words, code=2)
