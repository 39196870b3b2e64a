"""Headers of a record, encoded:

    varint count, then of each: varint length, name in UTF-8, varint length (-1: null), value
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from cy.varint cimport write_varint


cdef bytes encode_headers(object headers):
    cdef list pairs = list(headers.items() if isinstance(headers, dict) else headers)
    cdef list pieces = [encode_varint(len(pairs))]
    for name, value in pairs:
        name = name.encode()
        pieces += (encode_varint(len(name)), name)
        if value is None:
            pieces.append(encode_varint(-1))
        else:
            value = bytes(memoryview(value))
            pieces += (encode_varint(len(value)), value)
    return b"".join(pieces)


cdef bytes encode_varint(Py_ssize_t value):
    cdef uint8_t[5] target
    if value > INT32_MAX:
        raise ValueError(f"a header of {value} bytes")
    return PyBytes_FromStringAndSize(
        <const char *>target, write_varint(target, <int32_t>value) - target
    )


def size_of_headers(headers):
    """The bytes that these headers take in a record."""
    return len(encode_headers(headers)) if headers else 0
