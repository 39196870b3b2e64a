"""Requests of one connection that wait for their responses. Has no socket and no clock.

Kafka answers in the order of requests, so a response belongs to the oldest request in flight. Another correlation id
means that the stream is broken. If a request times out, its whole connection is closed, because later requests on the
same stream would be as late.
"""

from cython cimport final, freelist
from libc.stdint cimport int64_t

from cy.wire.codec cimport Codec
from cy.produce.produce_template cimport Cast

from collections import deque

from cy.wire.buffer import DecodeError
from cy.wire.messages import Message

cdef enum:
    PRODUCE = 0                 # keys of APIs
    FETCH = 1
    API_VERSIONS = 18
    UNSUPPORTED_VERSION = 35
    LAST_ID = 0x7fffffff


@final
@freelist(64)
cdef class Pending:
    def __init__(self, api, message, on_done, double deadline, max_version):
        self.api = api
        self.message = message
        self.on_done = on_done
        self.deadline = deadline
        self.max_version = max_version
        self.version = self.correlation_id = -1
        self.end = -1


@final
cdef class Connection:
    def __init__(self, client_id):
        self.client_id = client_id
        self.in_flight = deque()
        self.departing = deque()

    def encode(self, Pending request not None, int version):
        cdef int correlation_id = self.next_id
        cdef bint silent
        cdef Codec codec
        message = request.message
        if type(message) is Cast:
            silent = (<Cast>message).template.silent
            frame = (<Cast>message).frame(version, correlation_id, self.client_id)
        else:
            codec = request.api.request_codec
            if not isinstance(message, Message):
                message = message(version)
            silent = codec.key == PRODUCE and message.acks == 0
            frame = codec.encode_request(version, correlation_id, self.client_id, message)
        request.version = version
        request.correlation_id = correlation_id
        request.message = None
        self.next_id = 0 if correlation_id == LAST_ID else correlation_id + 1
        (self.departing if silent else self.in_flight).append(request)
        return frame

    def decode(self, view, Py_ssize_t start, Py_ssize_t end, bint reused):
        if not self.in_flight:
            raise DecodeError("a response came without a request")
        cdef Pending request = self.in_flight[0]
        cdef Codec codec = request.api.response_codec
        cdef int version = request.version
        if reused and codec.key == FETCH:           # records are views
            view, start, end = memoryview(bytes(view[start:end])), 0, end - start
        try:
            if codec.key == API_VERSIONS:
                version = version_of(view, start, end, version)
            response = codec.decode_response(version, request.correlation_id, view, start, end)
        except DecodeError as error:
            raise DecodeError(f"{request.api.name} v{version}: {error}") from error
        self.in_flight.popleft()
        return request, response

    def departed(self, int64_t sent):
        gone = []
        while self.departing and (<Pending>self.departing[0]).end <= sent:
            gone.append(self.departing.popleft())
        return gone

    @property
    def is_busy(self):
        return bool(self.in_flight or self.departing)

    def __len__(self):
        return len(self.in_flight) + len(self.departing)

    def earliest_deadline(self):
        waiting = (*self.in_flight, *self.departing)
        return min([request.deadline for request in waiting], default=None)

    def take_all(self):
        lost = [*self.in_flight, *self.departing]
        self.in_flight.clear()
        self.departing.clear()
        return lost


cdef int version_of(view, Py_ssize_t start, Py_ssize_t end, int asked) except -1:
    """Returns the version of an ApiVersions response.

    A broker that does not know the requested version answers in version 0 (KIP-511). The error code follows the
    correlation id in all versions.
    """
    at = min(start + 4, end)
    code = int.from_bytes(view[at:min(at + 2, end)], "big", signed=True)
    return 0 if code == UNSUPPORTED_VERSION else asked
