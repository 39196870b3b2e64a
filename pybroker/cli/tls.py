"""``pybroker tls``: certificates for a broker and its clients."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pybroker import private_files
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Suggesting

HOSTS = ("localhost", "127.0.0.1")
PUBLIC = 0o644
AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"
SERVER, CLIENT = "server.pem", "client.pem"
FILES = (AUTHORITY, AUTHORITY_KEY, SERVER, CLIENT)
EXAMPLES = """
pybroker tls create certificates
pybroker tls create certificates kafka-1.example 10.0.0.7
"""
LINES = """\
# server.properties
listeners=SSL://:9093
security.inter.broker.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
# only clients with a certificate:
# ssl.client.auth=required

# client.properties, for --command-config
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
# with a certificate of its own:
# ssl.keystore.type=PEM
# ssl.keystore.location={client}
"""


@click.group(cls=Suggesting)
def tls() -> None:
    """Keys and certificates, so that connections can be encrypted."""


@tls.command(examples=EXAMPLES)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
def create(directory: Path, hosts: tuple[str, ...]) -> None:
    """Makes an authority, a server's certificate for the hosts, and a client's.

    The hosts are the names and addresses by which clients come [localhost 127.0.0.1]. Writes ca.pem, ca-key.pem,
    server.pem and client.pem, never over a file that is there. Shows the settings that use them.
    """
    from pyclient.security.authority import Authority

    folder = directory.absolute()
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there:
        raise Failure(f"{folder / there[0]} exists: choose another DIR, or move it away")
    authority = Authority("pybroker authority")
    try:
        server = authority.server(hosts or HOSTS)
    except ValueError as error:
        raise click.UsageError(f"a HOST is no name and no address: {error}") from error
    client = authority.client("client")
    contents = {
        AUTHORITY: authority.issued.certificate,
        AUTHORITY_KEY: authority.issued.key,
        SERVER: server.key + server.certificate,
        CLIENT: client.key + client.certificate,
    }
    try:
        folder.mkdir(private_files.FOLDER, parents=True, exist_ok=True)
        for name, content in contents.items():
            put(folder / name, content, PUBLIC if name == AUTHORITY else private_files.FILE)
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror}") from error
    write(LINES.format(authority=folder / AUTHORITY, server=folder / SERVER, client=folder / CLIENT))


def put(path: Path, content: bytes, mode: int) -> None:
    """Writes a file that is not there, with that mode from its first byte. Raises OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
