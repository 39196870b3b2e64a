"""Writes the stubs that tell a type checker the message and error classes, which are created at run time.

``python -m pyclient.protocol.stubs`` writes ``__init__.pyi``, ``records.pyi`` and ``errors.pyi`` from the schemas and
the table of errors. A test fails if they are outdated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pyclient.protocol.apis import ALL, SCHEMAS, Api
from pyclient.protocol.errors import ROWS, WITH_RECORD_ERRORS, class_name
from pyclient.protocol.schema import Body, Field, Head, read_bodies, read_head

HERE = Path(__file__).parent
HEADER = "# Written by python -m pyclient.protocol.stubs: do not edit.\n"

_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes | bytearray | memoryview",
}
_RECORDS = {"Request": "bytes | bytearray | memoryview", "Response": "Records"}


def _type(line: Field, message: str) -> str:
    """Returns the Python type of a field of ``message``, such as ``Fetch.Request``."""
    if line.is_struct:
        one = f"{message}.{line.type}"
    elif line.type == "records":
        one = _RECORDS[message.rpartition(".")[2]]
    else:
        one = _TYPES.get(line.type, "int")
    unsent = line.default == "null" or (line.tag is not None and line.is_struct and not line.array)
    can_be_none = unsent or line.type == "records" or line.nullable.last >= 0
    return (f"list[{one}]" if line.array else one) + (" | None" if can_be_none else "")


def _message(name: str, path: str, body: Body, indent: str) -> Iterator[str]:
    yield f"{indent}class {name}(Message):"
    for struct, fields in body.all_structs().items():
        yield f"{indent}    class {struct}(Message):"
        for line in fields:
            yield f"{indent}        {line.name}: {_type(line, path)} = ..."
        yield ""
    for line in body.fields:
        yield f"{indent}    {line.name}: {_type(line, path)} = ..."
    if not body.fields:
        yield f"{indent}    ..."


_METHODS = """
    @staticmethod
    def decode_request(version: int, view: Buffer, position: int, end: int) -> {0}.Request: ...
    @staticmethod
    def decode_response(version: int, view: Buffer, position: int, end: int) -> {0}.Response: ...
    @staticmethod
    def encode_request(
        version: int, correlation_id: int, client_id: str | None, request: {0}.Request
    ) -> Frame: ...
    @staticmethod
    def encode_response(version: int, correlation_id: int, response: {0}.Response) -> Frame: ...
"""


def _api(api: Api) -> Iterator[str]:
    bodies = read_bodies(api.head)
    yield f"class {api.name}(metaclass=Api):"
    for side in ("Request", "Response"):
        yield from _message(side, f"{api.name}.{side}", bodies[side.lower()], "    ")
        yield ""
    yield _METHODS.format(api.name).strip("\n")
    yield ""


def _record(head: Head) -> Iterator[str]:
    yield from _message(head.name, head.name, read_bodies(head)["fields"], "")
    yield "    min_version: ClassVar[int]"
    yield "    max_version: ClassVar[int]"
    yield "    @staticmethod"
    yield f"    def encode(version: int, message: {head.name}) -> bytes: ..."
    yield "    @staticmethod"
    yield f"    def decode(view: Buffer) -> {head.name}: ..."
    yield ""


def render_apis() -> str:
    """Returns the text of ``__init__.pyi``."""
    lines = [
        HEADER,
        "from typing_extensions import Buffer\n",
        "from cy.wire.sendfile import FileSlice",
        "from cy.wire.messages import Message",
        "from pyclient.protocol.apis import Api\n",
        "ZERO_UUID: bytes",
        "Records = bytes | bytearray | memoryview | FileSlice",
        "Frame = bytes | list[bytes | FileSlice]\n",
    ]
    for api in ALL:
        lines += _api(api)
    return "\n".join(lines).rstrip() + "\n"


def render_records() -> str:
    """Returns the text of ``records.pyi``."""
    lines = [
        HEADER,
        "from typing import ClassVar\n",
        "from typing_extensions import Buffer\n",
        "from cy.wire.messages import Message\n",
    ]
    for path in sorted((SCHEMAS / "records").glob("*.api")):
        lines += _record(read_head(path))
    return "\n".join(lines).rstrip() + "\n"


_ERRORS = '''
from collections.abc import Sequence
from typing import ClassVar, Final

NONE: Final = 0
FATAL: frozenset[str]
WITH_RECORD_ERRORS: tuple[str, ...]
ROWS: tuple[tuple[int, str, bool, str], ...]

class KafkaError(Exception):
    """An error of Kafka's table. ``str(error)`` is the message if given, else the row's text."""

    code: ClassVar[int]
    name: ClassVar[str]
    retriable: ClassVar[bool]
    fatal: ClassVar[bool]
    text: ClassVar[str]
    grant: str
    """The command that grants the missing right, if the client knows it."""
    def __init__(self, message: str | None = None) -> None: ...

def without_frames(error: KafkaError) -> KafkaError: ...
def class_name(name: str) -> str: ...
def by_code(code: int) -> type[KafkaError] | None: ...
'''
_WITH_RECORD_ERRORS = """\
class {}(KafkaError):
    record_errors: list[tuple[int, str]]
    def __init__(
        self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None: ..."""


def render_errors() -> str:
    """Returns the text of ``errors.pyi``."""
    lines = [HEADER + _ERRORS]
    for code, name, retriable, text in ROWS:
        told = f"# {code}{', retriable' if retriable else ''}: {text}"
        if name in WITH_RECORD_ERRORS:
            lines += [told, _WITH_RECORD_ERRORS.format(class_name(name))]
        else:
            lines.append(f"class {class_name(name)}(KafkaError): ...  {told}")
    return "\n".join(lines) + "\n"


def render() -> dict[Path, str]:
    """Returns every stub's path and text."""
    return {
        HERE / "__init__.pyi": render_apis(),
        HERE / "records.pyi": render_records(),
        HERE / "errors.pyi": render_errors(),
    }


def main() -> int:
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
