"""Codecs: the plans of a message by version, whole frames, and the headers of requests.

    request:  int32 length, int16 api key, int16 api version, int32 correlation id,
              string? client id [, tagged fields], message
    response: int32 length, int32 correlation id [, tagged fields], message
    record:   int16 version, message

The client id is never compact; whether a header has tagged fields depends on the API's version.
"""

cimport cython
from libc.stdint cimport int32_t, uint32_t

from cy.wire.buffer cimport Reader, Writer
from cy.endian cimport store_int32
from cy.wire.plan cimport Plan
from cy.wire.wire_types cimport String, WireType

from cy.wire.buffer import DecodeError, EncodeError

cdef enum:
    LARGEST = 0x7fffffff
    MOST_TAGS = 1000            # the most tagged fields in a header; Kafka has two


cdef Writer spare = Writer()


cdef Writer writer_to_use():
    """Returns the writer of the last frame, or a new one while that is in use."""
    global spare
    writer = spare
    spare = None
    return Writer() if writer is None else writer


cdef object finished(Writer writer, Py_ssize_t prefix):
    """Returns the result. With ``prefix`` 4, puts the frame's length into its first four bytes."""
    global spare
    cdef Py_ssize_t size = writer.size + writer.foreign
    if size > LARGEST:
        raise EncodeError(f"a frame of {size} bytes; the limit is {LARGEST}")
    if prefix:
        store_int32(writer.data, <int32_t>(size - 4))
    result = writer.result()
    writer.clear()
    spare = writer
    return result


cdef String CLIENT_ID = String(nullable=True)


cdef class Codec:
    """The plans of one message by version. ``compile(version)`` makes each when it is first needed.

    ``flexible_header`` is the first version whose header has tagged fields (32767: none). With ``open``, bytes after
    the end of a message are ignored, not an error.
    """

    def __init__(
        self, str name, int key, int min_version, int max_version, int flexible_header, compile,
        bint open=False,
    ):
        self.name = name
        self.key = key
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_header = flexible_header
        self.compile = compile
        self.open = open
        self.plans = [None] * (max_version + 1)

    cdef Plan known(self, int version):
        """Returns the plan of a version, None if there is no such version."""
        if version < self.min_version or version > self.max_version:
            return None
        if self.plans[version] is None:
            self.plans[version] = self.compile(version)
        return <Plan>self.plans[version]

    def has_flexible_header(self, int version) -> bool:
        """Returns True if the header of that version has tagged fields."""
        return version >= self.flexible_header

    def plan(self, int version) -> Plan:
        """Returns the plan of a version. Raises EncodeError if there is none."""
        plan = self.known(version)
        if plan is None:
            raise EncodeError(f"{self.name} has versions {self.min_version} to {self.max_version}, "
                              f"not {version}")
        return plan

    def element(self, int version, *path) -> WireType:
        """Returns the type of the elements of the field at ``path``, an array at each step."""
        cdef WireType found = self.plan(version)
        for name in path:
            found = (<Plan?>found).element(name)
        return found

    def decode(self, int version, view, Py_ssize_t position, Py_ssize_t end):
        """Returns the message that fills ``view[position:end]``. Raises DecodeError."""
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        if self.open:
            return plan.decode(Reader(view, position, end))
        return plan.decode_all(Reader(view, position, end))

    def decode_within(
        self, int version, view, Py_ssize_t position, Py_ssize_t end, Py_ssize_t budget,
        bint polite=False,
    ):
        """Does what ``decode`` does. Raises TooMuch if that takes more than ``budget`` units."""
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        cdef Reader reader = Reader(view, position, end)
        reader.budget = budget
        reader.polite = polite
        return plan.decode(reader) if self.open else plan.decode_all(reader)

    cpdef decode_response(
        self, int version, int correlation_id, view, Py_ssize_t position, Py_ssize_t end
    ):
        """Returns the message of a whole frame, which begins with a header. Raises DecodeError, also for the response
        to another request.
        """
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        reader = Reader(view, position, end)
        cdef int found = reader.int32()
        if found != correlation_id:
            raise DecodeError(f"correlation id {found}, not {correlation_id}")
        if version >= self.flexible_header:
            skip_tags(reader)
        return plan.decode_all(reader)

    def encode(self, int version, message) -> bytes:
        """Returns the bytes of the message, without a header."""
        writer = writer_to_use()
        (<Plan>self.plan(version)).encode(writer, message)
        return whole(finished(writer, 0))

    cpdef encode_request(self, int version, int correlation_id, client_id, message):
        """Returns a whole request frame: length, header, message."""
        writer = writer_to_use()
        writer.int32(0)
        writer.int16(self.key)
        writer.int16(version)
        writer.int32(correlation_id)
        CLIENT_ID.encode(writer, client_id)
        if version >= self.flexible_header:
            writer.int8(0)
        (<Plan>self.plan(version)).encode(writer, message)
        return finished(writer, 4)

    def encode_response(self, int version, int correlation_id, message):
        """Returns a whole response frame: length, header, message."""
        return self.encode_response_with(writer_to_use(), version, correlation_id, message)

    def encode_response_within(self, int version, int correlation_id, message, Py_ssize_t budget):
        """Does what ``encode_response`` does. Raises TooMuch if that takes more than ``budget`` units."""
        writer = writer_to_use()
        writer.budget = budget
        return self.encode_response_with(writer, version, correlation_id, message)

    def encode_response_politely(self, int version, int correlation_id, message):
        """Does what ``encode_response`` does, on a thread that must not delay the event loop."""
        writer = Writer()
        writer.polite = True
        return self.encode_response_with(writer, version, correlation_id, message)

    cdef object encode_response_with(self, Writer writer, int version, int correlation_id, message):
        writer.int32(0)
        writer.int32(correlation_id)
        if version >= self.flexible_header:
            writer.int8(0)
        (<Plan>self.plan(version)).encode(writer, message)
        return finished(writer, 4)

    def encode_record(self, int version, message) -> bytes:
        """Returns an internal record: the version as int16, the message."""
        writer = writer_to_use()
        writer.int16(version)
        (<Plan>self.plan(version)).encode(writer, message)
        return whole(finished(writer, 0))

    def decode_record(self, view):
        """Returns the internal record in ``view``, which begins with its version."""
        reader = Reader(view, 0, len(view))
        cdef int version = reader.int16()
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        return plan.decode_all(reader)

    def decode_open_record(self, view):
        """Does what ``decode_record`` does, but reads a later version as the latest known one."""
        reader = Reader(view, 0, len(view))
        cdef int version = reader.int16()
        cdef Plan plan = self.known(min(version, self.max_version))
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        return plan.decode(reader)


cdef bytes whole(result):
    return result if isinstance(result, bytes) else b"".join(result)


@cython.final
cdef class RequestHeader:
    """The header of a request. The message begins at ``position``."""

    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly str client_id
    cdef readonly Py_ssize_t position

    def __repr__(self):
        return (f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
                f"correlation_id={self.correlation_id}, client_id={self.client_id!r})")


cdef int skip_tags(Reader reader) except -1:
    cdef uint32_t count = reader.uvarint()
    if count > MOST_TAGS:
        raise DecodeError(f"{count} tagged fields in a header; the limit is {MOST_TAGS}")
    while count:
        count -= 1
        reader.uvarint()
        reader.take(reader.uvarint())
    return 0


@cython.final
cdef class RequestHeaders:
    """Decodes request headers; ``flexible`` maps an API's key to its first flexible version."""

    cdef dict flexible

    def __init__(self, dict flexible):
        self.flexible = flexible

    def decode(self, view, Py_ssize_t position, Py_ssize_t end):
        """Returns the header at ``view[position:end]``."""
        cdef Reader reader = Reader(view, position, end)
        cdef RequestHeader header = RequestHeader.__new__(RequestHeader)
        header.api_key = reader.int16()
        header.api_version = reader.int16()
        header.correlation_id = reader.int32()
        header.client_id = CLIENT_ID.decode(reader)
        if header.api_version >= <int>self.flexible.get(header.api_key, LARGEST):
            skip_tags(reader)
        header.position = reader.ptr - reader.start
        return header


def decode_response_header(view, Py_ssize_t position, Py_ssize_t end, bint flexible):
    """Returns (correlation id, position of the message) of the response at ``view[position:end]``."""
    cdef Reader reader = Reader(view, position, end)
    correlation_id = reader.int32()
    if flexible:
        skip_tags(reader)
    return correlation_id, reader.ptr - reader.start
