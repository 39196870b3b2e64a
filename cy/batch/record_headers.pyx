"""Encodes the headers of a record:

    varint count, then for each: varint length, name in UTF-8, varint length (-1: null), value
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from cy.varint cimport write_varint


cpdef object listed(object headers):
    """Returns the headers as something that can be read twice, unlike an iterator."""
    if headers is None or isinstance(headers, (list, tuple, dict)):
        return headers
    if hasattr(headers, "items"):
        return list(headers.items())
    try:
        return list(headers)
    except TypeError:
        raise TypeError(
            f"headers are {type(headers).__name__}: pairs of a name and bytes, or a mapping"
        ) from None


cdef bytes encode_headers(object headers):
    cdef list pairs = list(headers.items() if isinstance(headers, dict) else headers)
    cdef list pieces = [encode_varint(len(pairs))]
    for pair in pairs:
        name, value = checked(pair)
        name = name.encode()
        pieces += (encode_varint(len(name)), name)
        if value is None:
            pieces.append(encode_varint(-1))
        else:
            value = bytes(value)
            pieces += (encode_varint(len(value)), value)
    return b"".join(pieces)


cdef tuple checked(object pair):
    """Returns name and value of a header. Raises TypeError."""
    try:
        name, value = pair
    except (TypeError, ValueError):
        raise TypeError(f"header {pair!r} is not a pair of a name and bytes") from None
    if not isinstance(name, str):
        raise TypeError(f"the name of header {name!r} is {type(name).__name__}, not str")
    try:
        return name, None if value is None else memoryview(value)
    except TypeError:
        raise TypeError(
            f"header {name!r} is {type(value).__name__}, not bytes: encode it"
        ) from None


cdef bytes encode_varint(Py_ssize_t value):
    cdef uint8_t[5] target
    if value > INT32_MAX:
        raise ValueError(f"a header of {value} bytes")
    return PyBytes_FromStringAndSize(
        <const char *>target, write_varint(target, <int32_t>value) - target
    )


def size_of_headers(headers):
    """Returns the size in bytes of these headers in a record."""
    return len(encode_headers(headers)) if headers else 0
