"""The name in a certificate as Kafka shows it: the text of Java's ``X500Principal.getName()``, which is RFC 2253."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attribute types that RFC 2253 names. Java writes all others as numbers, and their values as bytes."""
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The tags of strings that Java shows as text. Java reads the bytes of all of them as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0
"""The tag of the only field of a certificate that may be missing before its subject."""
_SUBJECT: Final = 4
"""The index of the subject among a certificate's fields, without the version."""
_LONG_FORM: Final = 0x80
_HEADER: Final = 2

Element = tuple[int, bytes, bytes]
"""Tag, content, and all bytes of a DER element."""


def subject(certificate: bytes) -> str:
    """Returns the subject of a DER certificate, as ``shown``. Raises ValueError."""
    ((_, content, _),) = elements(x509.load_der_x509_certificate(certificate).tbs_certificate_bytes)
    fields = [whole for tag, _, whole in elements(content) if tag != _VERSION]
    return shown(fields[_SUBJECT])


def shown(name: bytes) -> str:
    """Returns a DER name as text. The last part of the name comes first in the text."""
    ((_, parts, _),) = elements(name)
    names = ["+".join(_attribute(content) for _, content, _ in elements(part)) for _, part, _ in elements(parts)]
    return ",".join(reversed(names))


def elements(data: bytes) -> Iterator[Element]:
    """Yields the elements of a sequence in valid DER."""
    while data:
        tag, size, start = data[0], data[1], _HEADER
        if size >= _LONG_FORM:
            start += size - _LONG_FORM
            size = int.from_bytes(data[_HEADER:start], "big")
        yield tag, data[start : start + size], data[: start + size]
        data = data[start + size :]


def _attribute(data: bytes) -> str:
    (_, oid, _), (tag, content, whole) = elements(data)
    name = _dotted(oid)
    keyword = _KEYWORDS.get(name)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or name}=#{whole.hex()}"
    return f"{keyword}={escaped(content.decode(errors='replace'))}"


def _dotted(oid: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def escaped(value: str) -> str:
    """Escapes characters with a meaning in a name, and white space at either end, by a backslash."""
    text = [f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in value]
    characters = "".join(text)
    inner = characters.strip(" \r")
    if not inner:
        return "".join(f"\\{each}" for each in characters)
    before, _, after = characters.partition(inner)
    return "".join((*(f"\\{each}" for each in before), inner, *(f"\\{each}" for each in after)))
