"""The verbs against a broker."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.tests.running import Shell
from pyclient import Consumer, Producer

QUICK = {"group.initial.rebalance.delay.ms": "0"}
_number = itertools.count(1)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run(**QUICK) as broker:
        yield Shell(broker.bootstrap_servers)


@pytest.fixture
def topic(shell: Shell) -> str:
    """A topic of two partitions; the first has ten records."""
    name = f"topic-{next(_number)}"
    shell.done("topic", "create", name, "-p", 2)
    with Producer(shell.bootstrap) as producer:
        producer.send_many(name, [b"%d" % n for n in range(10)], partition=0)
    return name


def read(shell: Shell, topic: str, *more: object) -> list[str]:
    return shell.done("consume", topic, "--to", "end", *more).out.splitlines()


def test_a_topic_is_created_listed_described_altered_and_deleted(shell: Shell) -> None:
    shell.done("topic", "create", "made", "-p", 2, "-c", "retention.ms=1000")
    assert "made" in shell.done("topic", "list", "-o", "name").out.splitlines()
    shell.done("topic", "alter", "made", "-p", 3, "--set", "segment.bytes=100000", "--unset", "retention.ms")
    (found,) = shell.done("topic", "describe", "made", "-o", "jsonl").documents
    assert found["configs"] == {"segment.bytes": "100000"}
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]
    shell.done("topic", "delete", "made")
    assert "made" in shell.refused("topic", "delete", "made")
    shell.done("topic", "delete", "made", "--if-exists")


def test_a_terminal_shows_what_the_verb_waits_for_and_what_it_sent(
    shell: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = ("consume", topic, "--timeout", 0)
    assert shell.done(*quick).err == ""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert "--from-beginning shows what is there already" in shell.done(*quick).err
    assert "from where the group has committed" in shell.done(*quick, "-g", topic).err
    assert shell.done(*quick, "--from-beginning").err == shell.done(*quick, "--to", "end").err == ""
    assert shell.done("produce", topic, "--value", "a").err == f"pybroker: 1 record sent to {topic}\n"
    assert "2 records sent" in shell.done("produce", topic, "--value", "a", "--value", "b").err


def test_one_failure_is_reported_and_the_rest_is_done(shell: Shell, topic: str) -> None:
    ended = shell("topic", "create", topic, topic + "-new", "-o", "name")
    assert (ended.code, ended.out) == (1, topic + "-new\n")
    assert "TOPIC_ALREADY_EXISTS" in ended.err
    shell.done("topic", "create", topic, "--if-not-exists")


@pytest.mark.parametrize(
    "words",
    ["topic describe nope", "topic delete nope", "topic offsets nope", "consume nope", "config get topic nope",
     "config set topic nope retention.ms=1"],
)
def test_an_unknown_topic_is_named_once_and_in_plain_words(shell: Shell, words: str) -> None:
    told = "pybroker: there is no topic 'nope' (UNKNOWN_TOPIC_OR_PARTITION): `pybroker topic list` shows what there is"
    assert shell.refused(*words.split()) == f"{told}\n"


def test_a_dry_run_creates_nothing(shell: Shell) -> None:
    shell.done("topic", "create", "planned", "--dry-run")
    assert "planned" not in shell.done("topic", "list").out


def test_a_trim_moves_the_first_offset(shell: Shell, topic: str) -> None:
    shell.done("topic", "trim", topic, "--before", 4, "-p", 0)
    rows = shell.done("topic", "offsets", topic, "-o", "csv").out.splitlines()
    assert rows[1:] == [f"{topic},0,4,10,6", f"{topic},1,0,0,0"]
    at = shell.done("topic", "offsets", topic, "--at", "-3", "-o", "jsonl").documents
    assert [row["offset"] for row in at] == [7, 0]


def test_keys_are_set_appended_and_unset(shell: Shell, topic: str) -> None:
    shell.done("config", "set", "topic", topic, "cleanup.policy+=compact", "retention.ms=5")
    rows = shell.done("config", "get", "topic", topic, "-o", "jsonl").documents
    assert {row["key"]: row["value"] for row in rows} == {"cleanup.policy": "delete,compact", "retention.ms": "5"}
    shell.done("config", "unset", "topic", topic, "cleanup.policy", "retention.ms")
    nothing = shell.done("config", "get", "topic", topic)
    assert (nothing.out, nothing.err) == ("", "no key is set: --all shows the defaults\n")
    assert "no key bogus" in shell.refused("config", "get", "topic", topic, "bogus")
    assert "INVALID_CONFIG" in shell.refused("config", "set", "topic", topic, "bogus=1")


def test_the_cluster_and_its_apis_are_shown(shell: Shell) -> None:
    (found,) = json.loads(shell.done("cluster", "describe", "-o", "json").out)
    assert [each["id"] for each in found["brokers"]] == [found["controller_id"]]
    apis = shell.done("api-versions", "-o", "name").out.splitlines()
    assert {"Produce", "Fetch", "ApiVersions"} <= set(apis)


@pytest.mark.parametrize(
    ("places", "values"),
    [
        (("--from", "beginning"), range(10)),
        (("--from", "-3"), range(7, 10)),
        (("--from", "8"), range(8, 10)),
        (("--from-beginning", "-n", 4), range(4)),
        (("--from", "@0", "--to", "2"), range(2)),
        (("--from", "end"), range(0)),
    ],
)
def test_records_are_read_from_a_place_to_another(
    shell: Shell, topic: str, places: tuple[object, ...], values: range
) -> None:
    assert read(shell, topic, *places) == [str(each) for each in values]


def test_records_are_chosen_by_key_and_by_an_expression(shell: Shell, topic: str) -> None:
    shell.done("produce", topic, "-p", 1, "-K", ":", stdin="".join(f"k{n % 3}:value {n}\n" for n in range(60)))
    at = ("-p", 1, "--from-beginning")
    tens = read(shell, topic, *at, "--key", "k1", "--grep", "value 1[0-9]$")
    assert tens == ["value 10", "value 13", "value 16", "value 19"]
    assert read(shell, topic, *at, "--grep", "5", "-n", 2) == ["value 5", "value 15"]
    assert len(read(shell, topic, "--from-beginning", "-g", f"some-{topic}", "--key", "k0", "-n", 3)) == 3
    assert shell.refused("consume", topic, "--grep", "(", code=2) == "pybroker: --grep (: missing ): (\n"


def test_consume_reads_the_output_of_produce(shell: Shell, topic: str) -> None:
    lines = b"k1\tv1\nk2\t\n\tv3\r\n"
    shell.done("produce", topic, "-p", 1, "-K", r"\t", "-Z", "-H", "h=x", "-H", "h=y", "-z", "lz4", stdin=lines)
    found = read(shell, topic, "-p", 1, "--from-beginning", "-f", r"%o %k %s %h\n", "-Z", "NULL")
    assert found == ["0 k1 v1 h=x,h=y", "1 k2 NULL h=x,h=y", "2 NULL v3 h=x,h=y"]
    documents = "\n".join(read(shell, topic, "-p", 1, "--from-beginning", "-o", "jsonl"))
    shell.done("topic", "create", topic + "-copy", "-p", 2)
    shell.done("produce", topic + "-copy", "--input", "jsonl", stdin=documents)
    assert "\n".join(read(shell, topic + "-copy", "--from-beginning", "-o", "jsonl")) == documents.replace(
        f'"{topic}"', f'"{topic}-copy"'
    )


def test_a_record_that_is_refused_fails_the_command(shell: Shell, topic: str) -> None:
    assert "there is no partition 7" in shell.refused("produce", topic, "-p", 7, "--value", "x")
    told = shell.refused("produce", topic, "--input", "jsonl", stdin='{"value": "sent"}\n{}\n')
    assert told.startswith("pybroker: line 2: ")
    assert told.endswith("; the lines before it were sent\n")
    assert "sent" in read(shell, topic, "--from-beginning")
    told = shell.refused("produce", topic, "-K", ":", stdin="no key\n")
    assert told == "pybroker: line 1: ':' is missing, which ends the key\n"


def test_a_group_takes_no_partition(shell: Shell, topic: str) -> None:
    told = shell.refused("consume", topic, "-g", "g", "-p", 0, code=2)
    assert "--partition cannot be used with it" in told


def test_a_group_commits_exactly_what_was_shown(shell: Shell, topic: str) -> None:
    group = f"of-{topic}"
    assert len(read(shell, topic, "-g", group, "--from-beginning", "-n", 4)) == 4
    (found,) = shell.done("group", "describe", group, "-o", "jsonl").documents
    assert [(row["committed"], row["lag"]) for row in found["offsets"] if row["partition"] == 0] == [(4, 6)]
    assert read(shell, topic, "-g", group, "--to", "6") == ["4", "5"]
    assert read(shell, topic, "-g", group) == ["6", "7", "8", "9"]
    assert shell.done("group", "describe", group, "--only-with-lag").out == ""
    assert group in shell.done("group", "list", "-o", "name").out.splitlines()
    assert shell.done("group", "lag", group, "-o", "jsonl").documents[0]["lag"] == 0
    assert group not in shell.done("group", "lag", "--only-with-lag").out
    shell.done("group", "delete", group)
    assert "GROUP_ID_NOT_FOUND" in shell.refused("group", "describe", group)


def test_a_reset_does_nothing_until_it_is_executed(shell: Shell, topic: str) -> None:
    words = ("group", "reset", f"of-{topic}", "--topic", f"{topic}:0", "--to", "7", "-o", "jsonl")
    plan = shell.done(*words)
    assert plan.documents == [{"topic": topic, "partition": 0, "from": None, "to": 7}]
    assert "--execute, in place of --dry-run, carries it out" in plan.err
    assert shell.done(*words).documents == plan.documents
    assert shell.done(*words, "--execute").err == ""
    shifted = shell.done("group", "reset", f"of-{topic}", "--all-topics", "--shift-by", -90, "-o", "jsonl").documents
    assert [(row["from"], row["to"]) for row in shifted] == [(7, 0)]


def test_offsets_of_a_group_with_members_are_not_reset(shell: Shell, topic: str) -> None:
    with Consumer(shell.bootstrap, group_id="at-work", topics=[topic], auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(60)) > 0
        line = shell.refused("group", "reset", "at-work", "--topic", topic, "--to-earliest", "--execute")
        assert "has 1 member: stop them first" in line
        assert len(shell.done("group", "describe", "at-work", "--members", "-o", "csv").out.splitlines()) == 2


def test_an_empty_list_is_reported_on_stderr(shell: Shell) -> None:
    ended = shell.done("txn", "list", "--state", "Dead")
    assert (ended.out, ended.err) == ("", "no transactions\n")
    assert shell.done("txn", "list", "--state", "Dead", "-o", "json").out == "[]\n"


def test_a_transaction_is_listed_described_and_aborted(shell: Shell, topic: str) -> None:
    with Producer(shell.bootstrap, transactional_id="etl") as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=1)
        producer.flush()
        (found,) = shell.done("txn", "describe", "etl", "-o", "jsonl").documents
        assert (found["state"], found["partitions"]) == ("Ongoing", [f"{topic}-1"])
        assert shell.done("txn", "list", "--state", "Ongoing", "-o", "name").out == "etl\n"
        assert read(shell, topic, "-p", 1, "--from-beginning", "--committed") == []  # the end is before what is open
        shell.done("txn", "abort", "etl")
    assert read(shell, topic, "-p", 1, "--from-beginning", "--committed") == []
    assert "TRANSACTIONAL_ID_NOT_FOUND" in shell.refused("txn", "abort", "nobody")
