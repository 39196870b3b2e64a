"""Creates the files of a certificate authority, and of the keys and certificates of a server and of a client.

``pybroker tls create`` and ``pybroker.run(tls=True)`` use them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pybroker import private_files

HOSTS: Final = ("localhost", "127.0.0.1")
_PUBLIC: Final = 0o644


class Files(NamedTuple):
    """The paths of the files of an authority and of the key pairs that it has signed."""

    authority: Path
    """The authority's certificate, which peers trust."""
    authority_key: Path
    server: Path
    client: Path

    @classmethod
    def of(cls, folder: Path) -> Files:
        """Returns the files in a folder."""
        return cls(*(folder / name for name in ("ca.pem", "ca-key.pem", "server.pem", "client.pem")))


def make(folder: Path, hosts: Sequence[str] = HOSTS) -> Files:
    """Makes all files, for a server with these host names. Raises FileExistsError, OSError, and ValueError for an
    invalid host.
    """
    from pyclient.security.authority import Authority

    files = Files.of(folder)
    for path in files:
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists")
    authority = Authority("pybroker authority")
    server, client = authority.server(hosts), authority.client("client")
    contents = (
        authority.issued.certificate,
        authority.issued.key,
        server.key + server.certificate,
        client.key + client.certificate,
    )
    folder.mkdir(private_files.FOLDER, parents=True, exist_ok=True)
    for path, content in zip(files, contents, strict=True):
        _put(path, content, _PUBLIC if path == files.authority else private_files.FILE)
    return files


def _put(path: Path, content: bytes, mode: int) -> None:
    """Writes a new file, which has this mode from its first byte on. Raises OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
