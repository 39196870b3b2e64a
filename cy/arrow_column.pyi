from typing import Any, final

@final
class ArrowColumn:
    """A column of bytes or text of any Arrow library, read where it lies. Do not change it meanwhile."""

    rows: int

    def __init__(self, array: Any) -> None:
        """``array`` has ``__arrow_c_array__`` (the Arrow PyCapsule interface). Raises TypeError for
        other types than binary, large_binary, string, large_string.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> bytes | None: ...
