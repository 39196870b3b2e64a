from typing import Any, final

class BytesColumn:
    """Rows of bytes, some of which may be null."""

    rows: int

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> bytes | None: ...

@final
class ArrowColumn(BytesColumn):
    """A column of bytes or text of any Arrow library, read in place. Do not change the column meanwhile."""

    def __init__(self, array: Any) -> None:
        """``array`` must have ``__arrow_c_array__`` (the Arrow PyCapsule interface).

        Raises TypeError unless the type is binary, large_binary, string or large_string.
        """

@final
class HeaderColumn(BytesColumn):
    """Headers of records, encoded at once: a column, of any Arrow library, of lists of structs of a name and a
    value.
    """

    def __init__(self, array: Any) -> None:
        """``array`` must have ``__arrow_c_array__``. Raises TypeError for other types, ValueError if a name is null."""
    def __getitem__(self, row: int) -> bytes:
        """Returns the headers of a row in the form of a record, empty if there are none."""
