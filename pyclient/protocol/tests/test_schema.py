"""The grammar of the schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyclient.protocol.apis import SCHEMAS
from pyclient.protocol.schema import (
    Body,
    Field,
    SchemaError,
    Versions,
    read_bodies,
    read_head,
)

ALL_SCHEMAS = sorted(SCHEMAS.rglob("*.api"))
TEXT = """\
# a remark
api 99 Example 2-7, flexible 5+, advertised 0+

request
    plain       int32
    topics      []Topic?4+          3+ ignorable   # another
        name    string = "x"
        inner   Inner?
            id  uuid
    tagged      int64 = -1          5-6 tag 1
response
    both        []Shared
    struct Shared
        value   bool = true
"""


def bodies(tmp_path: Path, text: str) -> dict[str, Body]:
    path = tmp_path / "example.api"
    path.write_text(text)
    return read_bodies(read_head(path))


def test_the_head_of_a_schema_has_key_name_and_versions(tmp_path: Path) -> None:
    path = tmp_path / "example.api"
    path.write_text(TEXT)
    head = read_head(path)
    assert (head.kind, head.key, head.name) == ("api", 99, "Example")
    assert (head.versions, head.advertised.first, head.flexible_from) == (Versions(2, 7), 0, 5)


def test_a_line_of_a_schema_has_type_default_versions_and_tag(tmp_path: Path) -> None:
    plain, topics, tagged = bodies(tmp_path, TEXT)["request"].fields
    assert plain == Field("plain", "int32", False, Versions(2, 7))
    assert (topics.type, topics.array, topics.ignorable) == ("Topic", True, True)
    assert (3 in topics.versions, 2 in topics.versions) == (True, False)
    assert (4 in topics.nullable, 3 in topics.nullable) == (True, False)
    assert (tagged.default, tagged.versions, tagged.tag) == ("-1", Versions(5, 6), 1)


def test_nested_structs_are_found_by_name(tmp_path: Path) -> None:
    found = bodies(tmp_path, TEXT)
    assert list(found["request"].all_structs()) == ["Inner", "Topic"]
    assert [line.name for line in found["response"].all_structs()["Shared"]] == ["value"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("    field", "example.api:3: 'field' is not a field"),
        ("    field int32 7x", "is not a field"),
        ("    field int32 7+ tag", "is not a field"),
        ("    field int32 = 1 2", "is not a field"),
    ],
)
def test_an_error_names_file_and_number_of_a_wrong_line(tmp_path: Path, line: str, text: str) -> None:
    wrong = line + " twice" if line.endswith(" 2") else line
    with pytest.raises(SchemaError, match=text):
        bodies(tmp_path, f"api 99 Example 0\nrequest\n{wrong}\n")


def test_a_wrong_head_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="'apis 1 X 0' is not a head"):
        bodies(tmp_path, "apis 1 X 0\n")


@pytest.mark.parametrize("path", ALL_SCHEMAS, ids=lambda path: path.stem)
def test_a_schema_file_has_the_name_of_its_message_and_begins_with_a_comment(path: Path) -> None:
    head = read_head(path)
    assert path.stem.replace("_", "") == head.name.lower()
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert all(line == line.rstrip() and "\t" not in line for line in lines)
    assert list(read_bodies(head)) == (
        ["request", "response"] if head.kind == "api" else ["fields"]
    )
