"""The APIs. An ``Api`` is a class without instances, the namespace of its messages.

    request = Fetch.Request(max_wait_ms=500, topics=[Fetch.Request.FetchTopic(topic="a")])
    frame = Fetch.encode_request(12, correlation_id, client_id, request)

Importing this module reads only the head of each schema. The rest is read when ``Request``, ``Response`` or a codec is
first used. The plan of a version is compiled when that version first occurs.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from cy.wire.codec import Codec
from cy.wire.messages import Message
from pyclient.protocol.messages import compiler, message_classes
from pyclient.protocol.schema import Head, read_bodies, read_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from cy.wire.sendfile import FileSlice

    Decode = Callable[[int, Buffer, int, int], Message]
    Frame = bytes | list[bytes | FileSlice]

SCHEMAS = Path(__file__).parent / "schemas"


class Api(type):
    """An API of the protocol. Its attributes:

    - ``key``, ``name``
    - ``min_version``, ``max_version``: as in Kafka 4.4.0
    - ``advertised_min``: lower than ``min_version`` only for Produce
    - ``flexible_from``: the first flexible version
    - ``Request``, ``Response``: the message classes
    - ``decode_request(version, view, position, end)`` and ``decode_response``: a message
    - ``encode_request(version, correlation_id, client_id, request)`` and
      ``encode_response(version, correlation_id, response)``: a whole frame with its length, as bytes. If it has large
      or file-backed pieces, it is a list of ``bytes`` and slices of files.
    - ``decode_request_within``, ``encode_response_within``, ``encode_response_politely``: within a budget, or beside
      a thread that is in a hurry (``cy.wire.codec``)
    """

    key: int
    name: str
    min_version: int
    max_version: int
    advertised_min: int
    flexible_from: int
    head: Head
    Request: type[Message]
    Response: type[Message]
    request_codec: Codec
    response_codec: Codec
    decode_request: Decode
    decode_response: Decode
    decode_request_within: Callable[..., Message]
    encode_response_within: Callable[[int, int, Any, int], Frame]
    encode_response_politely: Callable[[int, int, Any], Frame]
    encode_request: Callable[[int, int, str | None, Any], Frame]
    encode_response: Callable[[int, int, Any], Frame]

    def is_flexible(cls, version: int) -> bool:
        """Returns whether the version has compact sizes and tagged fields (KIP-482)."""
        return version >= cls.flexible_from

    def __repr__(cls) -> str:
        return f"{cls.name} ({cls.key}) {cls.min_version}-{cls.max_version}"


class _Unloaded:
    """An attribute that an API has after its schema is loaded. This one is on the metaclass, and the class's own
    attribute hides it after loading. (A ``__getattr__`` would make every access to an API slow.)
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, api: Api, _: type[Api]) -> Any:
        with _LOADING:
            if self.name not in api.__dict__:
                _load(api)
        return api.__dict__[self.name]


for _side in ("request", "response"):
    for _name in (_side.title(), f"{_side}_codec", f"decode_{_side}", f"encode_{_side}"):
        setattr(Api, _name, _Unloaded(_name))
for _name in ("decode_request_within", "encode_response_within", "encode_response_politely"):
    setattr(Api, _name, _Unloaded(_name))
_LOADING = Lock()
"""Each client has a thread. Two must not create the classes of a message twice, because those would not be equal."""
_API_VERSIONS = 18
_NEVER = 0x7FFF


def _load(api: Api) -> None:
    """Reads the schema, and gives the API its classes and codecs."""
    bodies = read_bodies(api.head)
    for side in ("request", "response"):
        message = message_classes(bodies[side], f"{api.name}.{side.title()}", {})

        # KIP-482: a client that does not know the versions yet must be able to read the header
        fixed = api.key == _API_VERSIONS and side == "response"
        codec = Codec(
            f"{api.name} {side}",
            api.key,
            api.min_version,
            api.max_version,
            _NEVER if fixed else api.flexible_from,
            compiler(bodies[side], message, api.is_flexible, strict=side == "request"),
            api.head.is_open and side == "request",
        )
        setattr(api, side.title(), message)
        setattr(api, f"{side}_codec", codec)
        setattr(api, f"decode_{side}", codec.decode)
        setattr(api, f"encode_{side}", getattr(codec, f"encode_{side}"))
    api.decode_request_within = api.request_codec.decode_within
    api.encode_response_within = api.response_codec.encode_response_within
    api.encode_response_politely = api.response_codec.encode_response_politely


def _api(path: Path) -> Api:
    head = read_head(path)
    return Api(
        head.name,
        (),
        {
            "__module__": "pyclient.protocol",
            "key": head.key,
            "name": head.name,
            "min_version": head.versions.first,
            "max_version": head.versions.last,
            "advertised_min": head.advertised.first,
            "flexible_from": head.flexible_from,
            "head": head,
        },
    )


ALL: tuple[Api, ...] = tuple(
    sorted((_api(path) for path in SCHEMAS.glob("*.api")), key=lambda api: api.key)
)
_BY_KEY: dict[int, Api] = {api.key: api for api in ALL}


def by_key(key: int) -> Api | None:
    """Returns the API with this key, None if this project has no schema of it."""
    return _BY_KEY.get(key)
