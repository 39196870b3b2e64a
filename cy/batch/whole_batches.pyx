"""Finds the end of the last whole batch in a piece of a segment, for code that reads a file in large pieces."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from cy.batch.header cimport LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from cy.endian cimport load_int32

from cy.batch.header import CorruptBatch


cdef struct Piece:
    int64_t end             # the end of the last whole batch; -1 if the piece has bytes that are not a batch
    int64_t next_size       # of the incomplete last batch, 0 if even its length is incomplete
    bint has_legacy


cdef void measure_piece(const uint8_t *at, int64_t size, Piece *piece) noexcept nogil:
    cdef int64_t position = 0, length
    piece.next_size = 0
    piece.has_legacy = False
    while size - position > MAGIC_AT:
        length = <int64_t>load_int32(at + position + LENGTH_AT) + LOG_OVERHEAD
        if length <= MAGIC_AT or at[position + MAGIC_AT] > 2:
            piece.end = -1
            return
        if length > size - position:
            piece.next_size = length
            break
        piece.has_legacy = piece.has_legacy or at[position + MAGIC_AT] < 2
        position += length
    piece.end = position


def measure(data):
    cdef Py_buffer view
    cdef Piece piece
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        measure_piece(<const uint8_t *>view.buf, view.len, &piece)
    PyBuffer_Release(&view)
    if piece.end < 0:
        raise CorruptBatch("bytes that are not a batch lie between batches")
    return piece.end, piece.next_size, bool(piece.has_legacy)
