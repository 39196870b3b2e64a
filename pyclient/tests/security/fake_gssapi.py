"""A stand-in for the library ``gssapi``: tokens in plain words, no keys, no network. Both sides of an exchange have it.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from pyclient.security import kerberos

REALM = "REALM.COM"
CLOCKS = kerberos._BASE + 37
UNREACHABLE = kerberos._BASE + 156
SIGNED = b"signed:"


class GSSError(Exception):
    def __init__(self, min_code: int = 0, why: str = "it does not fit") -> None:
        super().__init__(why)
        self.maj_code, self.min_code = 1, min_code

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return [str(self)]


class MissingCredentialsError(GSSError):
    pass


class Name(str):
    def __new__(cls, text: str, kind: object) -> Name:
        return str.__new__(cls, text)

    def canonicalize(self, mech: object) -> str:
        return f"{self}@{REALM}"


class Library(SimpleNamespace):
    """Takes the place of the module. Each first step of a client raises ``trouble``. ``threads`` lists the threads that
    ran a broker's steps, and ``client_threads`` those that ran a client's.
    """

    trouble: GSSError | None = None

    def __init__(self) -> None:
        super().__init__(
            exceptions=SimpleNamespace(GSSError=GSSError, MissingCredentialsError=MissingCredentialsError),
            NameType=SimpleNamespace(kerberos_principal=1, hostbased_service=2),
            MechType=SimpleNamespace(kerberos=1),
            RequirementFlag=SimpleNamespace(anonymity=64, mutual_authentication=2, integrity=32),
            Name=Name,
            Credentials=self._credentials,
            SecurityContext=self._context,
        )
        self.threads: set[str] = set()
        self.client_threads: set[str] = set()
        self.stores: list[dict[str, str]] = []

    def _credentials(self, name: str | None, usage: str, mechs: object, store: dict[str, str] | None) -> Any:
        self.stores.append(store or {})
        if "absent" in (name or ""):
            raise MissingCredentialsError(why="no key")
        return SimpleNamespace(name=name or "alice")

    def _context(self, creds: Any, usage: str, name: str = "", **more: Any) -> Any:
        return _Initiates(self, creds, name) if usage == "initiate" else _Accepts(self, creds)


class _Side:
    def __init__(self, library: Library, creds: Any) -> None:
        self.library, self.creds = library, creds
        self.complete = False
        self.actual_flags: set[int] = set()
        self.initiator_name = ""

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=SIGNED + message)

    def unwrap(self, message: bytes) -> Any:
        if not message.startswith(SIGNED):
            raise GSSError(why="it is not signed")
        return SimpleNamespace(message=message.removeprefix(SIGNED))


class _Initiates(_Side):
    def __init__(self, library: Library, creds: Any, target: str) -> None:
        super().__init__(library, creds)
        self._target = target

    def step(self, token: bytes | None) -> bytes | None:
        self.library.client_threads.add(threading.current_thread().name)
        if token is None:
            if self.library.trouble is not None:
                raise self.library.trouble
            return f"{self.creds.name} to {self._target}".encode()
        if token != b"welcome":
            raise GSSError(why="the broker is another one")
        self.complete = True
        return None


class _Accepts(_Side):
    def step(self, token: bytes | None) -> bytes:
        self.library.threads.add(threading.current_thread().name)
        who, _, service = (token or b"").decode().partition(" to ")
        if service != self.creds.name.partition("@")[0].replace("/", "@"):
            raise GSSError(CLOCKS if service == "late" else 0)
        self.initiator_name = who if "@" in who else f"{who}@{REALM}"
        self.actual_flags = {64} if who == "nobody" else set()
        self.complete = True
        return b"" if who == "hasty" else b"welcome"
