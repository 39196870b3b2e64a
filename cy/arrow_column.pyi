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

@final
class HeaderColumn:
    """Headers of records: a column of lists of structs of a name and a value, of any Arrow library, encoded at once."""

    rows: int

    def __init__(self, array: Any) -> None:
        """``array`` has ``__arrow_c_array__``. Raises TypeError for other types; ValueError where a name is null."""
    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> bytes:
        """As they will lie in the record; empty where there are none."""
