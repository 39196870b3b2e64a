"""Mistyped and interrupted commands."""

from __future__ import annotations

import click
import pytest

from pybroker.cli.common import ending
from pybroker.cli.tests.running import Shell


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("start", "--port", "80a"), "'--port': '80a' is not a whole number."),
        (("start", "--processes", "9092"), "'--processes': 9092 is not in the range 1<=x<=100."),
        (("quota", "set", "rate=1"), "extra argument (rate=1); `pybroker quota set --help` shows what it takes"),
        (("topic", "create"), "argument 'TOPIC…'. `pybroker topic create --help` shows what it takes"),
        (("group", "list", "--nosuch"), "option '--nosuch'. `pybroker group list --help` shows what it takes"),
        (("consume", "--topic", "t"), "option '--topic': the topic is an argument: `pybroker consume TOPIC`"),
        (("produce", "-t", "t"), "option '-t': the topic is an argument: `pybroker produce TOPIC`"),
        (("topic", "create", "--topic", "t"), "the topic is an argument: `pybroker topic create TOPIC`"),
        (("group", "describe", "--group", "g"), "the group is an argument: `pybroker group describe GROUP`"),
        (("consume", "t", "--offset", "5"), "option '--offset': here it is --from"),
        (("topic", "create", "t", "--replication-factor", "3"), "here it is --replicas"),
        (("group", "list", "--topic", "t"), "No such option '--topic'."),
        (("topic", "ls"), "pybroker: topic ls: no such verb: did you mean 'list'?"),
        (("topic", "rm", "t"), "did you mean 'delete'?"),
        (("topic", "list", "-X", "request.timeout.ms=5m"), "-X request.timeout.ms=5m: 'm' is not a unit of time"),
        (("doctor", "--timeout", "3s"), "'--timeout': '3s' is not a number."),
    ],
)
def test_a_mistyped_command_is_answered_with_the_right_one(words: tuple[str, ...], told: str) -> None:
    assert told in Shell().refused(*words, code=2)


def test_ctrl_c_at_a_prompt_ends_as_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.hidden_prompt_func", interrupted)
    with pytest.raises(click.Abort) as caught:
        click.prompt("Password", hide_input=True, err=True)
    assert ending.code_of(caught.value) == 130


def test_the_end_of_the_input_at_a_prompt_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    ended = Shell("127.0.0.1:1")("user", "create", "alice")
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == "pybroker: the input has ended before an answer"
