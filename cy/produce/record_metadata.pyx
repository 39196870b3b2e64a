"""The metadata of a delivered record: its partition, offset and timestamp."""

from cython cimport final, freelist, no_gc
from libc.stdint cimport int32_t, int64_t


@final
@no_gc
@freelist(256)
cdef class RecordMetadata:
    def __init__(self, str topic, int32_t partition, int64_t offset, int64_t timestamp):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp

    def as_tuple(self):
        return self.topic, self.partition, self.offset, self.timestamp

    def __iter__(self):
        return iter(self.as_tuple())

    def __eq__(self, other):
        if type(other) is not RecordMetadata:
            return NotImplemented
        return self.as_tuple() == (<RecordMetadata>other).as_tuple()

    def __hash__(self):
        return hash(self.as_tuple())

    def __reduce__(self):
        return RecordMetadata, self.as_tuple()

    def __repr__(self):
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, "
            f"offset={self.offset}, timestamp={self.timestamp})"
        )
