"""Makes the frames of Produce requests with one batch for one partition, without a message for each.

They differ only in the correlation id and the batch. So the codec makes one frame, with a batch that is easy to find in
it. The bytes before and after that batch are the *template* of all others. This module knows only these parts of a
request:

    head := int32 length, int16 api key, int16 api version, int32 correlation id, …
    size := int32; in a flexible version uvarint of the size + 1
    frame := head size batch tail
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final, freelist
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from cy.wire.codec cimport Codec
from cy.endian cimport store_int32
from cy.produce.producer_batch cimport ProducerBatch
from cy.varint cimport size_of_unsigned_varlong, write_unsigned_varlong

from cy.wire.buffer import EncodeError

cdef enum:
    CORRELATION_ID_AT = 8
    LARGEST = 0x7fffffff
    WORTH_A_PIECE = 16384       # batches from here on are not copied into the frame

PROBE = bytes(1 << 16)          # large enough to become a separate piece of the frame


cdef class ProduceTemplate:
    """Makes the requests to one partition. ``message`` is one of them, with the batch ``PROBE``.

    ``silent`` requests get no response.
    """

    def __init__(self, Codec codec not None, message, bint silent):
        self.codec = codec
        self.message = message
        self.silent = silent

    def cast(self, ProducerBatch batch not None):
        """Returns the request with this batch. Raises ValueError if it is not sealed."""
        cdef Cast cast = Cast.__new__(Cast)
        if batch.records is None:
            raise ValueError(f"{batch!r} is not sealed")
        cast.template = self
        cast.records = batch.records
        return cast

    cdef int make(self, int version, client_id) except -1:
        cdef list pieces = self.codec.encode_request(version, 0, client_id, self.message)
        cdef bytes head = pieces[0]
        self.version = version
        self.client_id = client_id
        self.tail = pieces[2] if len(pieces) > 2 else b""
        self.head = head[:len(head) - size_of_size(PyBytes_GET_SIZE(PROBE), self.is_flexible())]
        return 0

    cdef bint is_flexible(self) noexcept:
        return self.version >= self.codec.flexible_header


@final
@freelist(16)
cdef class Cast:
    """A request with one batch."""

    @property
    def silent(self):
        return self.template.silent

    def encode(self, int version, int correlation_id, client_id):
        return self.frame(version, correlation_id, client_id)

    cdef object frame(self, int version, int correlation_id, client_id):
        cdef ProduceTemplate template = self.template
        if template.head is None or template.version != version or template.client_id != client_id:
            template.make(version, client_id)
        cdef bint flexible = template.is_flexible()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.records)
        cdef Py_ssize_t head = PyBytes_GET_SIZE(template.head), tail = PyBytes_GET_SIZE(template.tail)
        cdef Py_ssize_t before = head + size_of_size(size, flexible)
        cdef Py_ssize_t inside = size + tail if size < WORTH_A_PIECE else 0
        if before + size + tail > LARGEST:
            raise EncodeError(f"a frame of {before + size + tail} bytes; the limit is {LARGEST}")
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, before + inside)
        cdef unsigned char *at = <unsigned char *>PyBytes_AS_STRING(frame)
        memcpy(at, PyBytes_AS_STRING(template.head), head)
        store_int32(at, <int32_t>(before + size + tail - 4))
        store_int32(at + CORRELATION_ID_AT, correlation_id)
        write_size(at + head, size, flexible)
        if not inside:
            return [frame, self.records, template.tail] if tail else [frame, self.records]
        memcpy(at + before, PyBytes_AS_STRING(self.records), size)
        memcpy(at + before + size, PyBytes_AS_STRING(template.tail), tail)
        return frame


cdef inline Py_ssize_t size_of_size(Py_ssize_t size, bint flexible) noexcept:
    return size_of_unsigned_varlong(size + 1) if flexible else 4


cdef inline void write_size(unsigned char *at, Py_ssize_t size, bint flexible) noexcept:
    if flexible:
        write_unsigned_varlong(at, size + 1)
    else:
        store_int32(at, <int32_t>size)
