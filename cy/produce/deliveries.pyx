"""The result of ``send_many``: the reports of many records, made from their batches on demand."""

from cython cimport final
from libc.stdint cimport int32_t, int64_t

from cy.produce.producer_batch cimport DeliveryReport, ProducerBatch, await_of, new_report

import time

from cy.counted import counted
from cy.produce.producer_batch import how_to_wait, not_within
from cy.seconds import seconds


@final
cdef class Deliveries:
    def __init__(self, Py_ssize_t size, int64_t timestamp):
        self.batches = []
        self.size = size
        self.timestamp = timestamp
        self.where_block = bytearray(4 * size)
        self.index_block = bytearray(4 * size)
        cdef char *where = self.where_block
        cdef char *index = self.index_block
        self.where = <int32_t *>where
        self.index = <int32_t *>index

    cdef int note(self, ProducerBatch batch, int32_t first, Py_ssize_t count) except -1:
        """Notes that the next ``count`` records are in the batch, from index ``first``."""
        cdef Py_ssize_t at
        if count > self.size - self.filled:
            raise ValueError(f"record {self.filled + count} of {self.size}: the sequence has grown")
        if not self.batches or self.batches[len(self.batches) - 1] is not batch:
            self.batches.append(batch)
        cdef int32_t number = <int32_t>len(self.batches) - 1
        for at in range(count):
            self.where[self.filled + at] = number
            self.index[self.filled + at] = first + <int32_t>at
        self.filled += count
        return 0

    def keep(self, DeliveryReport report not None):
        """Adds the report of the next record. All records must be added in order."""
        if self.kept is None:
            self.kept = []
        self.kept.append(report)
        self.note(report.batch, report.index, 1)

    def __len__(self):
        return self.filled

    def __repr__(self):
        state = "done" if self.done else f"pending: {how_to_wait('them')}"
        return f"Deliveries({counted(self.filled, 'record')}, {state})"

    def __getitem__(self, Py_ssize_t at):
        if at < 0:
            at += self.filled
        if not 0 <= at < self.filled:
            raise IndexError(f"{at} of {counted(self.filled, 'record')}")
        if self.kept is not None:
            return self.kept[at]
        return new_report(self.batches[self.where[at]], self.index[at], self.timestamp)

    @property
    def done(self):
        return all((<ProducerBatch>batch).done for batch in self.batches)

    @property
    def error(self):
        """Returns the first error, None if there is none so far."""
        cdef ProducerBatch batch
        for batch in self.batches:
            if batch.error is not None:
                return batch.error
        return None

    def pending(self):
        """Returns the unfinished batches."""
        return [batch for batch in self.batches if not (<ProducerBatch>batch).done]

    def ask(self):
        """Returns the unfinished batches, and notes that the application asks for their outcome."""
        found = self.pending()
        for batch in found:
            (<ProducerBatch>batch).asked = True
        return found

    def result(self, timeout=None):
        """Waits until all are done and returns the number of records. Raises the first error, or TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + seconds(timeout)
        for batch in self.ask():
            left = None if deadline is None else deadline - time.monotonic()
            if not (<ProducerBatch>batch).wait(left):
                raise TimeoutError(not_within(timeout, batch))
        return self.outcome()

    def outcome(self):
        """Returns the number of records, or raises the first error, when all are done."""
        error = self.error
        if error is not None:
            raise error
        return self.filled

    def __await__(self):
        return await_of(self)
