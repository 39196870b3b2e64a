"""``pybroker tls``: certificates for a broker and its clients."""

from __future__ import annotations

from pathlib import Path

import click

from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Suggesting
from pybroker.security.tls import certificates

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
# only users with a password: these, in place of the first two lines
# listeners=SASL_SSL://:9094
# security.inter.broker.protocol=SASL_SSL
# sasl.enabled.mechanisms=SCRAM-SHA-512

# client.properties, for --command-config
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
# with a certificate of its own:
# ssl.keystore.type=PEM
# ssl.keystore.location={client}
# as a user with a password: these, in place of the first line
# security.protocol=SASL_SSL
# sasl.mechanism=SCRAM-SHA-512
# sasl.username=alice
# sasl.password=…
# Java needs sasl.jaas.config, in one line, in place of the last two
# sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
"""


@click.group(cls=Suggesting)
def tls() -> None:
    """Keys and certificates, so that connections can be encrypted."""


@tls.command(examples=EXAMPLES)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
def create(directory: Path, hosts: tuple[str, ...]) -> None:
    """Creates a certificate authority, and certificates of a server and of a client.

    The hosts are the names and addresses by which clients reach the server [localhost 127.0.0.1]. Writes ca.pem,
    ca-key.pem, server.pem and client.pem, and never overwrites a file. Shows the settings that use them.
    """
    folder = directory.absolute()
    try:
        files = certificates.make(folder, hosts or certificates.HOSTS)
    except FileExistsError as error:
        raise Failure(f"{error}: choose another DIR, or move it away") from error
    except ValueError as error:
        raise click.UsageError(f"a HOST is neither a host name nor an address: {error}") from error
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror}") from error
    write(LINES.format(authority=files.authority, server=files.server, client=files.client))
