from collections.abc import Callable
from typing import Any

def join_objects(
    rows: int, validity: Any, offsets: Any, data: Any, allocate: Callable[[int], Any] = ...
) -> tuple[Any, int, Any]:
    """Returns the values of an Arrow column of bytes as lines of JSON, one per row: (lines, their size in bytes, bits).
    A bit is set for a row that is neither null nor one object. The arguments are the column's buffers from its first
    row on. Releases the GIL and makes no object per row.
    """
