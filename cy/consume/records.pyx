"""The application's view of consumed records: a sequence whose records are decoded lazily.

A ``Record`` has a reference to its chunk and the place of its entry, which takes 40 ns. Its bytes become
Python objects on first access.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final, freelist, no_gc
from libc.stdint cimport int32_t, int64_t, uint8_t

from cy.consume.fetched cimport Chunk, Entry
from cy.consume.value_reader cimport Reader
from cy.varint cimport read_varint

from collections.abc import Sequence

from cy.other_name import OtherName, own_names

ATTRIBUTES = "an attribute of each record: poll() returns a list of records, get() one record or None"
CREATE_TIME = 0
LOG_APPEND_TIME = 1

# The fields of a record that are Python objects already.
cdef enum:
    KEY = 1
    VALUE = 2
    HEADERS = 4


cdef inline object optional_bytes(const uint8_t *data, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>data, length)


cdef inline object read_by(
    Reader reader, Chunk chunk, const Entry *entry, const uint8_t *data, int32_t length
):
    """Returns a key or a value: its bytes, or what the deserializer returns for them."""
    if reader is None or length < 0:
        return optional_bytes(data, length)
    return reader.read(
        chunk.topic, chunk.partition, entry.offset, PyBytes_FromStringAndSize(<const char *>data, length)
    )


cdef list headers_of(const Entry *entry):
    cdef const uint8_t *at = entry.headers
    cdef const uint8_t *end = at + entry.headers_size
    cdef int32_t length = 0
    cdef list headers = []
    for _ in range(entry.header_count):
        read_varint(&at, end, &length)          # parsing has checked all of it
        key = PyUnicode_DecodeUTF8(<const char *>at, length, "replace")
        at += length
        read_varint(&at, end, &length)
        headers.append((key, optional_bytes(at, length)))
        at += max(length, 0)
    return headers


cdef str shown(record, str part):
    """Returns the text of a part of a record, even if its deserializer or its ``repr`` raises."""
    try:
        return repr(getattr(record, part))
    except Exception as error:
        cause = error.__cause__ or error
        return f"<unreadable: {type(cause).__name__}>"


@final
@no_gc
@freelist(512)
cdef class Record:
    cdef Chunk chunk
    cdef const Entry *entry
    cdef object made_key
    cdef object made_value
    cdef object made_headers
    cdef int made

    def __init__(
        self, str topic not None, int32_t partition, int64_t offset, int64_t timestamp=-1, key=None,
        value=None, headers=(), *, int timestamp_type=0, int32_t leader_epoch=-1,
    ):
        cdef Chunk chunk = Chunk.__new__(Chunk)
        cdef Entry *entry = chunk.room()
        if entry == NULL:
            raise MemoryError
        entry[0] = Entry(offset, timestamp, NULL, NULL, NULL, -1, -1, 0, 0, leader_epoch, timestamp_type)
        chunk.topic = topic
        chunk.partition = partition
        chunk.count = 1
        self.chunk = chunk
        self.entry = entry
        self.made_key = key
        self.made_value = value
        self.made_headers = list(headers)
        self.made = KEY | VALUE | HEADERS

    @property
    def topic(self):
        return self.chunk.topic

    @property
    def partition(self):
        return self.chunk.partition

    @property
    def offset(self):
        return self.entry.offset

    @property
    def timestamp(self):
        return self.entry.timestamp

    @property
    def timestamp_type(self):
        return self.entry.is_append_time

    @property
    def leader_epoch(self):
        return self.entry.leader_epoch

    @property
    def key(self):
        if not self.made & KEY:
            self.made_key = read_by(
                self.chunk.key_reader, self.chunk, self.entry, self.entry.key, self.entry.key_length
            )
            self.made |= KEY
        return self.made_key

    @property
    def value(self):
        if not self.made & VALUE:
            self.made_value = read_by(
                self.chunk.value_reader, self.chunk, self.entry, self.entry.value, self.entry.value_length
            )
            self.made |= VALUE
        return self.made_value

    @property
    def headers(self):
        if not self.made & HEADERS:
            self.made_headers = headers_of(self.entry)
            self.made |= HEADERS
        return self.made_headers

    error = OtherName(
        "error", "raised by get() and poll(); value, key and the others are attributes: record.value, without ()"
    )
    __dir__ = own_names

    def __repr__(self):
        return (f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
                f"timestamp={self.timestamp}, key={shown(self, 'key')}, value={shown(self, 'value')}, "
                f"headers={shown(self, 'headers')})")

    def __eq__(self, other):
        return isinstance(other, Record) and self.__reduce__() == other.__reduce__()

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self):
        return restored, (
            self.topic, self.partition, self.offset, self.timestamp, self.key, self.value,
            self.headers, self.timestamp_type, self.leader_epoch,
        )


def restored(*fields):
    """Unpickles a record."""
    return Record(*fields[:7], timestamp_type=fields[7], leader_epoch=fields[8])


cdef inline Record record_at(Chunk chunk, Py_ssize_t index):
    cdef Record record = Record.__new__(Record)
    record.chunk = chunk
    record.entry = &chunk.entries[index]
    return record


@final
cdef class RecordsIterator:
    def __iter__(self):
        return self

    cdef bint advance(self) except -1:
        """Advances to the next chunk with records. Returns False if there is none."""
        while self.next_chunk < len(self.chunks):
            self.chunk = self.chunks[self.next_chunk]
            self.next_chunk += 1
            self.index = 0
            if self.chunk.count:
                return True
        self.chunk = None
        return False

    def __next__(self):
        if self.chunk is None or self.index == self.chunk.count:
            if not self.advance():
                raise StopIteration
        self.index += 1
        self.given += 1
        return record_at(self.chunk, self.index - 1)

    def back_to(self, Py_ssize_t given):
        if self.given > given:
            self.index -= 1
            self.given -= 1

    def stop(self):
        self.chunk = None
        self.next_chunk = len(self.chunks)

    def rest(self):
        cdef Chunk chunk
        rest = {}
        if self.chunk is not None and self.index < self.chunk.count:
            rest[self.chunk.topic, self.chunk.partition] = self.chunk.entries[self.index].offset
        for chunk in self.chunks[self.next_chunk:]:
            if chunk.count:
                rest.setdefault((chunk.topic, chunk.partition), chunk.entries[0].offset)
        return rest


@final
cdef class Records:
    def __cinit__(self, list chunks=None):
        cdef Chunk chunk
        self.chunks = [] if chunks is None else chunks
        for chunk in self.chunks:
            self.total += chunk.count

    @property
    def chunks(self):
        return self.chunks

    def __len__(self):
        return self.total

    def __iter__(self):
        cdef RecordsIterator iterator = RecordsIterator.__new__(RecordsIterator)
        iterator.chunks = self.chunks
        return iterator

    def __getitem__(self, index):
        cdef Chunk chunk
        cdef Py_ssize_t at
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self.total))]
        at = index
        if at < 0:
            at += self.total
        if at >= 0:
            for chunk in self.chunks:
                if at < chunk.count:
                    return record_at(chunk, at)
                at -= chunk.count
        raise IndexError(f"record {index} of {self.total}")

    def by_partition(self):
        cdef Chunk chunk
        parts = {}
        for chunk in self.chunks:
            parts.setdefault((chunk.topic, chunk.partition), []).append(chunk)
        return {place: Records(chunks) for place, chunks in parts.items()}

    def count(self, value):
        return list(self).count(value)

    def index(self, value, *span):
        return list(self).index(value, *span)

    def values(self):
        cdef Chunk chunk
        cdef const Entry *entry
        cdef Py_ssize_t index
        values = []
        for chunk in self.chunks:
            for index in range(chunk.count):
                entry = &chunk.entries[index]
                values.append(read_by(chunk.value_reader, chunk, entry, entry.value, entry.value_length))
        return values

    items = OtherName("items", "by_partition(), which returns a dict: poll() returns a list")
    error = OtherName("error", "raised by poll(), which returns a list of records; get() returns one record or None")
    key = OtherName("key", ATTRIBUTES)
    value = OtherName("value", ATTRIBUTES)
    __dir__ = own_names

    def __eq__(self, other):
        return isinstance(other, (Records, list)) and list(self) == list(other)

    def __repr__(self):
        return f"Records({list(self)!r})"

    def __reduce__(self):
        return list, (list(self),)


Sequence.register(Records)
