"""Reads the kind of a control batch from its record."""
from libc.stdint cimport uint8_t

from cy.batch.aborted_transactions cimport (
    ABORT_MARKER, COMMIT_MARKER, NO_MARKER, OTHER_CONTROL, MarkerKind,
)
from cy.batch.header cimport HEADER_SIZE
from cy.batch.reader cimport SOUND, RecordView, parse_record
from cy.batch.view cimport BatchView
from cy.endian cimport load_int16


# Returns the kind of the control batch at ``at``, which is never compressed.
cdef inline MarkerKind marker_kind(const uint8_t *at, const BatchView *batch) noexcept nogil:
    cdef const uint8_t *record_at = at + HEADER_SIZE
    cdef RecordView record
    cdef int kind
    if batch.count == 0:
        return NO_MARKER
    if parse_record(&record_at, at + batch.size, &record) != SOUND or record.key_length < 4:
        return OTHER_CONTROL
    kind = load_int16(record.key + 2)
    return ABORT_MARKER if kind == 0 else COMMIT_MARKER if kind == 1 else OTHER_CONTROL
