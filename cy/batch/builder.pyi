from collections.abc import Iterable
from typing import TypeAlias, final

from typing_extensions import Buffer

Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]

@final
class Builder:
    """Builds one v2 batch; records are compressed, if at all, by ``build``."""

    def __init__(
        self,
        *,
        codec: int = 0,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time: bool = False,
    ) -> None: ...
    @property
    def size(self) -> int:
        """The bytes of the batch so far, before compression."""
    @property
    def count(self) -> int: ...
    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers = (),
        offset_delta: int | None = None,
    ) -> None:
        """Adds a record. ``offset_delta`` must grow; by default it is one more than the last record's."""
    def build(self, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
        """Returns the batch as bytes; more records may be added after that. Raises ``ValueError`` if it is empty."""

def recompress(buffer: Buffer, codec: int, level: int | None = None, *, max_output: int | None = None) -> bytes:
    """Returns the v2 batch with its records compressed by ``codec``, and a new CRC.

    The batch is not changed if its records would then exceed the limit for decompression
    (``compression.output_limit``).
    """
