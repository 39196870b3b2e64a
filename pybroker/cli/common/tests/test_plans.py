"""Verbs that can destroy data: --dry-run shows the plan and changes nothing; without it, or by --execute, they act."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.tests.running import Shell
from pyclient import Consumer, Producer

LINES = (
    *("topic delete t", "topic trim t --before latest", "group delete g", "txn abort id"),
    *("group reset g --topic t --to-latest", "partition reassign t", "partition elect t"),
    *("log strays adopt t", "log strays remove ."),
)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run(group_initial_rebalance_delay_ms=0) as broker:
        made = Shell(broker.bootstrap_servers)
        made.done("topic", "create", "t", "-p", 2)
        made.done("produce", "t", "-p", 0, stdin="a\nb\nc\n")
        made.done("topic", "trim", "t", "-p", 0, "--before", 1)
        yield made


@pytest.mark.parametrize("line", LINES)
def test_destructive_verbs_take_either_dry_run_or_execute(line: str) -> None:
    words = [*line.split(), "--dry-run", "--execute"]
    assert "exclude each other" in Shell("127.0.0.1:1").refused(*words, code=2)


def test_a_dry_run_of_a_deletion_shows_its_size_and_deletes_nothing(shell: Shell) -> None:
    plan = shell("topic", "delete", "t", "nope", "--dry-run", "-o", "csv")
    assert (plan.code, plan.out) == (1, "topic,partitions,records\nt,2,2\n")
    assert "nothing was changed" in plan.err
    assert "there is no topic 'nope'" in plan.err
    shell.done("topic", "delete", "t", "nope", "--dry-run", "--if-exists")
    assert shell.done("topic", "list", "-o", "name").out == "t\n"


def test_a_dry_run_of_a_trim_shows_the_offsets_and_deletes_nothing(shell: Shell) -> None:
    plan = shell.done("topic", "trim", "t", "--before", "latest", "--dry-run", "-o", "csv")
    assert plan.out == "topic,partition,from,to,records\nt,0,1,3,2\nt,1,0,0,0\n"
    assert "nothing was changed" in plan.err
    assert "t,0,1,3,2" in shell.done("topic", "offsets", "t", "-o", "csv").out


def test_a_dry_run_of_a_groups_deletion_shows_its_offsets_and_fails_like_the_deletion(shell: Shell) -> None:
    with Consumer(shell.bootstrap, group_id="g", topics=["t"], auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(60)) == 2
        consumer.commit()
        at_work = shell("group", "delete", "g", "--dry-run", "-o", "csv")
        assert (at_work.code, at_work.out.splitlines()[1]) == (1, "g,t,0,3")
        assert "group g has members" in at_work.err
    assert shell.done("group", "delete", "g", "--dry-run", "-o", "name").out == "g\n"
    assert shell.done("group", "delete", "g", "--topic", "other", "--dry-run", "-o", "csv").out.count("\n") == 1
    assert "GROUP_ID_NOT_FOUND" in shell("group", "delete", "nobody", "--dry-run").err
    assert shell.done("group", "list", "-o", "name").out == "g\n"


def test_a_dry_run_of_an_abort_shows_what_is_open_and_leaves_it_open(shell: Shell) -> None:
    with Producer(shell.bootstrap, transactional_id="etl") as producer:
        producer.begin_transaction()
        producer.send("t", b"open", partition=1).result(timeout=30)
        (found,) = shell.done("txn", "abort", "etl", "--dry-run", "-o", "jsonl").documents
        assert (found["state"], found["partitions"]) == ("Ongoing", ["t-1"])
        producer.commit_transaction()
    read = shell.done("consume", "t", "-p", 1, "--from-beginning", "--to", "end", "--committed")
    assert read.out == "open\n"
    assert "nobody" in shell("txn", "abort", "nobody", "--dry-run").err


def test_a_dry_run_of_an_alteration_checks_it_and_changes_nothing(shell: Shell) -> None:
    shell.done("topic", "alter", "t", "-p", 5, "--set", "retention.ms=1", "--dry-run")
    assert "INVALID_CONFIG" in shell("topic", "alter", "t", "--set", "bogus=1", "--dry-run").err
    (found,) = shell.done("topic", "describe", "t", "-o", "jsonl").documents
    assert (len(found["partitions"]), found["configs"]) == (2, {})


def test_an_unnecessary_election_plans_nothing(shell: Shell) -> None:
    plan = shell.done("partition", "elect", "--all", "--unclean")
    assert (plan.out, "no partition needs it" in plan.err) == ("", True)
    assert "nothing was changed" in shell.done("partition", "elect", "t", "--dry-run").err
