"""Translates Java's regular expressions and replacements for Python's ``re``, as far as ``re`` supports them.

If a construct has another meaning in Python, it is translated or refused.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"\\.|\(\?<(?=[A-Za-z])|\[\^?\]?|&&|.", re.DOTALL)
_OTHER_LINES: Final = re.compile(r"\(\?[a-zA-Z]*[smd]")
"""Matches flags that change what ends a line or what a dot matches."""
_LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"
_AT_END: Final = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
_NAMED: Final = {"(?<": "(?P<"}
_MEANT: Final = {**_NAMED, ".": f"[^{_LINE_ENDS}]", "$": _AT_END, r"\Z": _AT_END, r"\z": r"\Z"}
_PART: Final = re.compile(
    r"\\(?P<escaped>.)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|\$(?P<number>[0-9]+)|(?P<wrong>[\\$])|[^\\$]+", re.DOTALL
)


def compiled(text: str) -> re.Pattern[str]:
    """Returns the compiled pattern. Raises ValueError."""
    try:
        return re.compile(_translated(text), re.ASCII)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None


def _translated(text: str) -> str:
    meant = _NAMED if _OTHER_LINES.search(text) else _MEANT
    parts, is_in_class = list[str](), False
    for token in _TOKEN.findall(text):
        if is_in_class:
            if token.startswith("[") or token == "&&":
                raise ValueError(f"{text!r} is not a regular expression: {token} is in a class of characters")
            is_in_class = token != "]"
            parts.append(token)
        else:
            is_in_class = token.startswith("[")
            parts.append(meant.get(token, token))
    return "".join(parts)


def expanded(text: str, found: re.Match[str]) -> str:
    """Returns a replacement with its ``$1`` and ``${name}`` filled in; a backslash escapes the next character. Raises
    ValueError.
    """
    parts = list[str]()
    for part in _PART.finditer(text):
        if part["wrong"] is not None:
            raise ValueError(f"the replacement {text!r} has {part['wrong']} without a group or a letter")
        if part["escaped"] is not None:
            parts.append(part["escaped"])
        elif part["name"] is not None:
            parts.append(_group(text, found, part["name"]))
        elif part["number"] is not None:
            parts.append(_numbered(text, found, part["number"]))
        else:
            parts.append(part[0])
    return "".join(parts)


def _numbered(text: str, found: re.Match[str], digits: str) -> str:
    """Returns the group whose number is the longest one at the start of ``digits``, followed by the other digits."""
    used = 1
    while used < len(digits) and int(digits[: used + 1]) <= found.re.groups:
        used += 1
    return _group(text, found, int(digits[:used])) + digits[used:]


def _group(text: str, found: re.Match[str], group: int | str) -> str:
    try:
        return found[group] or ""
    except IndexError:
        why = f"the replacement {text!r} refers to group {group}, but the pattern has no such group"
        raise ValueError(why) from None
