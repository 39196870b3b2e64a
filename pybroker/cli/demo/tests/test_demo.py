"""The demo: as a command in a pipe, and its parts without a broker."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.cli.common.verbs import Failure
from pybroker.cli.demo.copying import Copied
from pybroker.cli.demo.file import File, Sizes
from pybroker.cli.demo.flights import Delays, Flights
from pybroker.cli.demo.latency import Latencies, Latency, percentiles
from pybroker.cli.demo.report import Report
from pybroker.cli.demo.speed import Speed
from pybroker.cli.demo.streaming import Streamed

DEADLINE_S = 120
DEMO = (sys.executable, "-m", "pybroker", "demo")


def demo(*words: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*DEMO, *map(str, words)], input=data, capture_output=True, timeout=DEADLINE_S)


@pytest.mark.nightly
def test_flights_are_streamed_and_the_report_says_that_nothing_is_lost_or_doubled() -> None:
    ended = demo("-n", 5_000, "-o", "json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["exact"] is True
    assert report["records"] == sum(report["shares"]) == 5_000
    assert report["copies"]["written"] >= report["copies"]["visible"] == report["chosen"] > 0
    assert report["transactions"]["aborted"] == 1
    assert 0 < report["acked_ms"]["p50"] <= report["acked_ms"]["p99"]
    assert b"\x1b" not in ended.stdout + ended.stderr


@pytest.mark.nightly
def test_lines_of_a_pipe_are_streamed_instead() -> None:
    ended = demo("-", data=b"".join(b"line %d\n" % number for number in range(1000)))
    assert ended.returncode == 0, ended.stderr
    text = ended.stdout.decode()
    assert "1,000 records of 8 bytes on average" in text
    assert "nothing lost, nothing doubled" in text
    assert "demo --keep" in ended.stderr.decode()


@pytest.mark.nightly
def test_the_broker_is_kept_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("name,size\na,1\nb,2\n", encoding="utf-8")
    running = subprocess.Popen([*DEMO, tmp_path / "few.csv", "-k", "name", "--keep"], stdout=-1, stderr=-1, text=True)
    assert running.stderr is not None
    address = next(found[1] for line in running.stderr if (found := re.search("BOOTSTRAP=(.+)", line)))
    shown = subprocess.run(
        [*DEMO[:-1], "consume", "few", "--from-beginning", "--to", "end", "-f", "%k %s\\n"],
        env={**os.environ, "PYBROKER_BOOTSTRAP": address},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    ).stdout
    assert sorted(shown.splitlines()) == [b'a {"name":"a","size":"1"}', b'b {"name":"b","size":"2"}']
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0


@pytest.mark.nightly
def test_a_demo_of_an_empty_file_says_so() -> None:
    for words, data, says in [
        (("nowhere.txt",), b"", "nowhere.txt: no such file"),
        (("-",), b"", "standard input: it is empty"),
        (("-", "--key", "a"), b"x\n", "--key a: standard input has no fields"),
    ]:
        ended = demo(*words, data=data)
        assert ended.returncode == 1
        assert says in ended.stderr.decode().splitlines()[-1]


def test_the_flights_are_the_published_data_set() -> None:
    flights = Flights()
    items = list(flights.items())
    assert len(items) == flights.total
    assert items[0].key == b"UA1545"
    assert items[0].value == (
        b'{"time":"2013-01-01T05:15","carrier":"UA","flight":1545,"origin":"EWR","dest":"IAH","delay":2}'
    )
    assert all(flights.is_copied(item.value) is item.is_copied for item in items[::97])


def test_delays_of_two_members_are_merged() -> None:
    values = [b'{"time":"","carrier":"%s","flight":1,"origin":"","dest":"","delay":%s}' % pair for pair in
              [(b"AA", b"10"), (b"AA", b"null"), (b"UA", b"4"), (b"AA", b"20")]]
    one, other = Delays(), Delays()
    one.add(values[:2])
    other.add(values[2:])
    one.merge(other)
    assert one.sentence() == "most delayed on average: AA, 15.0 min; most punctual: UA, 4.0 min"


def test_each_kind_of_file_is_read_by_record(tmp_path: Path) -> None:
    files = {
        "Lines of text.TXT": (b"a\r\n\nb", ["a", "", "b"], "lines-of-text"),
        "rows.csv": ("\ufeffname,note\n1,\"two\nlines\"\n".encode(), ['{"name":"1","note":"two\\nlines"}'], "rows"),
        "log.jsonl.gz": (gzip.compress(b'{"name": 1}\n\n[2]\n'), ['{"name": 1}', "[2]"], "log"),
    }
    for name, (data, values, topic) in files.items():
        (tmp_path / name).write_bytes(data)
        file = File(str(tmp_path / name), None)
        assert [item.value.decode() for item in file.items()] == values
        assert file.topic == topic


def test_a_file_that_is_not_what_its_name_says_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"a": 1}\nnothing\n')
    with pytest.raises(Failure, match=r"bad\.jsonl, line 2: this is not JSON"):
        list(File(str(path), "a").items())
    with pytest.raises(Failure, match="line 1: there is no field 'b'"):
        list(File(str(path), "b").items())
    (tmp_path / "bad.gz").write_bytes(b"x")
    with pytest.raises(Failure, match=r"bad\.gz: Not a gzipped file"):
        list(File(str(tmp_path / "bad.gz"), None).items())


@pytest.mark.parametrize(("shares", "visible"), [([5, 4], 2), ([5, 6], 2), ([5, 5], 1), ([5, 5], 3)])
def test_a_record_that_is_lost_or_doubled_is_in_the_verdict(shares: list[int], visible: int) -> None:
    streamed = Streamed(records=10, size=100, copied=2, sent_s=1, read_s=2, found="", shares=[5, 5])
    copied = Copied(transactions=8, aborted=1, written=3, visible=2, seconds=1)
    speed, latencies = Speed(10, 1, 10, 1), Latencies(Latency(1, 2), Latency(1, 2))
    good = Report("lines", "chosen", 0.4, streamed, copied, speed, latencies)
    bad = good._replace(streamed=streamed._replace(shares=shares), copied=copied._replace(visible=visible))
    assert good.is_exact
    assert "nothing lost, nothing doubled" in good.as_text()
    assert not bad.is_exact
    assert "RECORDS LOST OR DOUBLED" in bad.as_text()


def test_sizes_and_percentiles_cover_all_records() -> None:
    sizes, other = Sizes(), Sizes()
    sizes.add([b"a", b"bbb"])
    other.add([])
    sizes.merge(other)
    assert sizes.sentence() == "2 records of 2 bytes on average, 3 at most"
    found = percentiles([number * 1_000_000 for number in range(100, 0, -1)])
    assert (found.p50, found.p99) == (51.0, 100.0)
