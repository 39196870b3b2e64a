"""Errors about TLS settings, and about the files that they name."""

from __future__ import annotations


class TlsConfigError(ValueError):
    """Raised if a setting is missing or wrong, or contradicts another. ``setting`` is its name; the text names setting
    and file, and never a password or a key.
    """

    def __init__(self, setting: str, complaint: str) -> None:
        super().__init__(f"{setting}: {complaint}")
        self.setting = setting
        self.complaint = complaint

    def __reduce__(self) -> tuple[type[TlsConfigError], tuple[str, str]]:
        return type(self), (self.setting, self.complaint)


class BadStore(Exception):
    """A store that cannot be read. The text has the reason, without a file name."""


class WrongPassword(BadStore):
    """Raised if the password opens neither the store nor its key."""
