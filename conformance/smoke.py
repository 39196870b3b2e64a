"""Tests the installed package as a user would: the demo runs, ``pybroker`` starts, records are written and read, also
by Kafka's scripts, and SIGTERM ends it with 0.

Only the package needs to be installed: the client is kcat.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = (
    *("server-start", "topics", "console-producer", "console-consumer", "consumer-groups", "configs", "get-offsets"),
    *("log-dirs", "delete-records", "leader-election", "reassign-partitions", "producer-perf-test"),
    *("consumer-perf-test", "broker-api-versions", "dump-log"),
)
SCRIPTS = [f"kafka-{name}{end}" for name in NAMES for end in ("", ".sh")]


def kcat(bootstrap: str, *arguments: str, data: bytes = b"") -> bytes:
    """Runs kcat and returns its output."""
    command = ["kcat", "-b", bootstrap, *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=True).stdout


def demo(program: Path) -> None:
    """Runs the demo with all its data, and checks that its figures are exact."""
    ended = subprocess.run([program, "demo", "-o", "json"], stdout=subprocess.PIPE, timeout=120, check=True)
    report = json.loads(ended.stdout)
    assert report["exact"], report
    print(f"{report['records']:,} records went through the demo")


def scripts(program: Path, bootstrap: str) -> None:
    """Runs Kafka's scripts, by both of their names, as the lines of Kafka's documents do."""
    where = ["--bootstrap-server", bootstrap]
    for name in ("kafka-topics", "kafka-topics.sh"):
        listed = subprocess.run(
            [program.with_name(name), *where, "--list"], capture_output=True, text=True, timeout=60, check=True
        )
        assert listed.stdout == "smoke\n", listed
    send: list[str | Path] = [program.with_name("kafka-console-producer.sh"), *where, "--topic", "scripts"]
    subprocess.run(send, input=b"one\ntwo\n", timeout=60, check=True)
    read = [*where, "--topic", "scripts", "--from-beginning", "--max-messages", "2"]
    console = program.with_name("kafka-console-consumer.sh")
    found = subprocess.run([console, *read], capture_output=True, timeout=60, check=True).stdout
    assert found == b"one\ntwo\n", found
    missing = [name for name in SCRIPTS if not program.with_name(name).exists()]
    assert not missing, missing


def main() -> int:
    program = Path(sys.executable).with_name("pybroker")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        demo(program)
        broker = subprocess.Popen(
            [program, "--data-dir", "data", "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            bootstrap = ready.split("bootstrap=")[1].split()[0]
            lines = b"".join(b"line %d\n" % number for number in range(10_000))
            kcat(bootstrap, "-P", "-t", "smoke", "-z", "snappy", data=lines)
            back = kcat(bootstrap, "-C", "-t", "smoke", "-e", "-q")
            assert back == lines, f"{len(back)} of {len(lines)} bytes came back"
            scripts(program, bootstrap)
        finally:
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(30)
    print(f"10,000 lines went in and came back; exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
