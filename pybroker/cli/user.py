"""``pybroker user``: users of SCRAM: list, create, password, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.verbs import Failure, Suggesting, failures

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

NAMES: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
COLUMNS: Final = ("user", "mechanism", "iterations")
LEAST, MOST = 4096, 16_384
"""The fewest and most iterations that Kafka's brokers accept."""
EXAMPLES: Final = """
pybroker user create alice                                asks for the password
pybroker user create alice --password-file alice.secret --command-config admin.properties
"""

with_mechanisms = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(NAMES, case_sensitive=False),
    help="Only this one; without it, both.",
)


def with_password(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb ``password_file`` and ``iterations``."""
    file = click.option(
        "--password-file", metavar="FILE", help="A file whose first line is the password; - is stdin [it is asked for]."
    )
    hashed = f"Of the password's hash [{LEAST}]."
    return file(click.option("--iterations", type=click.IntRange(LEAST, MOST), default=LEAST, help=hashed)(function))


@click.group(cls=Suggesting)
def user() -> None:
    """Users of SCRAM, which clients name by sasl.username."""


@user.command("list")
@click.argument("names", nargs=-1, metavar="[USER]…")
@on_cluster
@with_output
def list_users(cluster: Cluster, output: str, names: tuple[str, ...]) -> int:
    """Lists users and their mechanisms."""
    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(names or None, check=False)
    show(output, COLUMNS, rows(found.items()), none="no users")
    return failures("user", found.errors)


def rows(found: Iterable[tuple[str, list[ScramCredentialInfo]]]) -> list[tuple[str, str, int]]:
    return [(name, each.mechanism.label, each.iterations) for name, infos in sorted(found) for each in infos]


@user.command(examples=EXAMPLES)
@click.argument("name", metavar="USER")
@with_mechanisms
@with_password
@on_cluster
@with_output
def create(
    cluster: Cluster,
    output: str,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: str | None,
    iterations: int,
) -> int:
    """Creates a user, who must not exist yet, and shows its mechanisms."""
    secret = password(password_file)
    with cluster.admin() as admin:
        if known(admin, name):
            raise Failure(f"user {name} is there already: `pybroker user password {name}` changes the password")
        return put(admin, output, name, chosen(mechanisms), secret, iterations)


@user.command("password")
@click.argument("name", metavar="USER")
@with_mechanisms
@with_password
@on_cluster
@with_output
def set_password(
    cluster: Cluster,
    output: str,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: str | None,
    iterations: int,
) -> int:
    """Changes a user's password, in each mechanism that the user has, and shows them."""
    secret = password(password_file)
    with cluster.admin() as admin:
        there = known(admin, name)
        if not there:
            raise Failure(f"there is no user {name}: `pybroker user create {name}` makes one")
        wanted = chosen(mechanisms) if mechanisms else [each.mechanism for each in there]
        return put(admin, output, name, wanted, secret, iterations)


@user.command()
@click.argument("names", nargs=-1, required=True, metavar="USER…")
@with_mechanisms
@at_once
@on_cluster
@with_output
def delete(cluster: Cluster, output: str, names: tuple[str, ...], mechanisms: tuple[str, ...], dry_run: bool) -> int:
    """Deletes users, who cannot connect from then on. Connections that there are stay."""
    from pyclient.admin import UserScramCredentialDeletion

    wanted = chosen(mechanisms)
    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(names, check=False)
        gone = {name: [each for each in found[name] if each.mechanism in wanted] for name in found}
        errors = dict(found.errors)
        if not dry_run:
            for name, infos in gone.items():
                for each in infos:
                    done = admin.alter_user_scram_credentials(
                        [UserScramCredentialDeletion(name, each.mechanism)], check=False
                    )
                    errors |= done.errors
    ended = rows((name, infos) for name, infos in gone.items() if name not in errors)
    show(output, COLUMNS, ended, none="" if errors else "no users")
    if dry_run:
        nothing_was_changed()
    return failures("user", errors)


def chosen(names: tuple[str, ...]) -> list[ScramMechanism]:
    """Returns the named mechanisms, else all."""
    from pyclient.admin import ScramMechanism

    return [ScramMechanism[name.replace("-", "_")] for name in names or NAMES]


def known(admin: Admin, name: str) -> list[ScramCredentialInfo]:
    """Returns a user's mechanisms; none for an unknown user."""
    from pybroker.cli.common.verbs import without

    found = admin.describe_user_scram_credentials([name], check=False)
    for error in without(found.errors, "RESOURCE_NOT_FOUND").values():
        raise error
    return found.get(name, [])


def put(
    admin: Admin, output: str, name: str, mechanisms: list[ScramMechanism], secret: str, iterations: int
) -> int:
    """Sets the password and shows what was set. Sends a request for each mechanism: one may name a user only once."""
    from pyclient.admin import ScramCredentialInfo, UserScramCredentialUpsertion

    done: list[ScramCredentialInfo] = []
    code = 0
    for each in mechanisms:
        info = ScramCredentialInfo(each, iterations)
        row: UserScramCredentialUpsertion = UserScramCredentialUpsertion(name, info, secret)
        if code := failures("user", admin.alter_user_scram_credentials([row], check=False).errors):
            break
        done.append(info)
    show(output, COLUMNS, rows([(name, done)]))
    return code


def password(file: str | None) -> str:
    """Reads the password from a file, stdin or the terminal, never from the command line. Raises UsageError."""
    if file is None:
        if not sys.stdin.isatty():
            raise click.UsageError("give --password-file FILE (- for stdin): there is no terminal to ask at")
        secret: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return secret
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise click.UsageError(f"--password-file {file}: {why}") from None
    secret = text.partition("\n")[0].rstrip("\r")
    if not secret:
        raise click.UsageError(f"--password-file {file}: its first line is empty")
    return secret
