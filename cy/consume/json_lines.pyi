from collections.abc import Callable
from typing import Any

def join_objects(
    rows: int, validity: Any, offsets: Any, data: Any, allocate: Callable[[int], Any] = ...
) -> tuple[Any, int, Any]:
    """The values of an Arrow column of bytes (its buffers, from its first row on) as lines of JSON, one a row -> (lines, their size in bytes, a bit per
    row that is neither null nor one object). Made without the GIL and without an object per row.
    """
