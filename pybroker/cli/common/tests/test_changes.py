"""What verbs that change or delete something say about it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.common.changes import changed
from pybroker.cli.tests.running import Shell
from pyclient import Consumer
from pyclient.admin import AlterConfigOp

LEFT_ALONE = "pybroker: nothing was changed: without --dry-run it is\n"


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run(group_initial_rebalance_delay_ms=0) as broker:
        yield Shell(broker.bootstrap_servers)


def test_an_altered_topic_is_shown_with_its_changes(shell: Shell) -> None:
    shell.done("topic", "create", "altered", "-p", 2)
    told = shell.done("topic", "alter", "altered", "-p", 3, "--set", "retention.ms=1s", "--unset", "segment.ms")
    assert told.out.splitlines() == [
        "NAME     KEY           CHANGE  VALUE",
        "altered  retention.ms  set     1000",
        "altered  segment.ms    unset   -",
        "altered  partitions    set     3",
    ]
    some = shell("topic", "alter", "altered", "nope", "-p", 4, "-o", "name")
    assert (some.code, some.out) == (1, "altered\n")
    dry = shell.done("topic", "alter", "altered", "-p", 5, "--dry-run", "-o", "csv")
    assert (dry.out, dry.err) == ("name,key,change,value\naltered,partitions,set,5\n", LEFT_ALONE)


def test_keys_that_were_set_and_unset_are_shown(shell: Shell) -> None:
    shell.done("topic", "create", "keyed")
    words = ("topic", "keyed", "cleanup.policy+=compact", "retention.ms=1h", "-o", "csv")
    rows = "name,key,change,value\nkeyed,cleanup.policy,add,compact\nkeyed,retention.ms,set,3600000\n"
    assert shell.done("config", "set", *words) == (0, rows, "")
    assert shell.done("config", "set", *words, "--dry-run") == (0, rows, LEFT_ALONE)
    (gone,) = shell.done("config", "unset", "topic", "keyed", "retention.ms", "-o", "jsonl").documents
    assert gone == {"name": "keyed", "key": "retention.ms", "change": "unset", "value": None}
    assert shell("config", "set", "topic", "keyed", "bogus=1").out == ""


def test_deleted_topics_are_shown(shell: Shell) -> None:
    shell.done("topic", "create", "first", "second")
    told = shell("topic", "delete", "first", "nope", "second", "-o", "csv")
    assert (told.code, told.out) == (1, "topic,state\nfirst,deleted\nsecond,deleted\n")
    assert shell.done("topic", "delete", "first", "--if-exists") == (0, "", "")


def test_deleted_groups_and_offsets_are_shown(shell: Shell) -> None:
    shell.done("topic", "create", "read", "-p", 1)
    shell.done("produce", "read", stdin="a\n")
    for name in ("whole", "part"):
        with Consumer(shell.bootstrap, group_id=name, topics=["read"], auto_offset_reset="earliest") as consumer:
            assert len(consumer.poll(60)) == 1
            consumer.commit()
    told = shell("group", "delete", "whole", "nobody", "-o", "csv")
    assert (told.code, told.out) == (1, "group,state\nwhole,deleted\n")
    told = shell.done("group", "delete", "part", "--topic", "read", "-o", "csv")
    assert told.out == "group,topic,partition,state\npart,read,0,deleted\n"


def test_repr_of_a_user_hides_the_password() -> None:
    given = [AlterConfigOp("ssl.keystore.password", "s3cret"), AlterConfigOp("ssl.keystore.type", "PEM")]
    assert [row[-1] for row in changed(["1"], given)] == ["[hidden]", "PEM"]
