from typing import Any

def listed(headers: Any) -> Any:
    """Headers (pairs, a mapping, None) as what can be read again: a list, a tuple, a dict, None. Raises TypeError."""

def size_of_headers(headers: Any) -> int:
    """The bytes that these headers (pairs, or a dict, or None) take in a record."""
