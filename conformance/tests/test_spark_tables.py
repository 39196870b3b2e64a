"""The files of a table that Spark has streamed, according to the logs in it."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.data.spark_tables import committed_files


def write_log(table: Path, name: str, *files: str) -> None:
    entries = [json.dumps({"path": f"file://{table}/{file}", "action": "add"}) for file in files]
    (table / "_spark_metadata" / name).write_text("\n".join(["v1", *entries]))


def test_each_parquet_file_named_by_the_log_counts_once(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "given-up").touch()
    write_log(tmp_path, "8", "of-8", "day=a%20b/of-8")
    write_log(tmp_path, "9.compact", "of-8", "day=a%20b/of-8", "of-9")
    write_log(tmp_path, "10", "of-10")
    (tmp_path / "_spark_metadata" / ".10.crc").write_bytes(b"\0crc")
    assert committed_files(tmp_path) == [
        f"{tmp_path}/{name}" for name in ("day=a b/of-8", "of-10", "of-8", "of-9")
    ]
