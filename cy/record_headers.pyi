from typing import Any

def size_of_headers(headers: Any) -> int:
    """The bytes that these headers (pairs, or a dict, or None) take in a record."""
