from typing import Any

def listed(headers: Any) -> Any:
    """Returns headers (pairs, a mapping, None) as something that can be read twice: a list, a tuple, a dict, None.
    Raises TypeError.
    """

def size_of_headers(headers: Any) -> int:
    """Returns the size in bytes of these headers (pairs, a dict, None) in a record."""
