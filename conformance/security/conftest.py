"""Starts one broker with an authorizer and all mechanisms, a user for each test, and the clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conformance.conftest import QUICK_GROUPS
from conformance.drivers.logins import Login
from conformance.security.aio import AiokafkaClient
from conformance.security.base import Acl, Administrator, Client
from conformance.security.confluent import ConfluentAdministrator, ConfluentClient
from conformance.security.go import GoAdministrator, GoClient
from conformance.security.java import JavaAdministrator, JavaClient
from conformance.security.kafka_python import KafkaPythonAdministrator, KafkaPythonClient
from conformance.security.tokens import Token, Tokens
from harness.clients.command_line import run
from harness.clients.go_clients import LIBRARIES
from harness.clients.jvm import Jvm
from harness.servers.guarded import ALLOWED_URLS, GUARDED, Guarded
from harness.servers.issuer import Issuer, serving
from harness.waiting import until

Grant = Callable[..., None]

#: The number of users exceeds that of the tests.
USERS = [f"user-{number}" for number in range(200)]
#: These need Go, which the suite does not install.
FRANZ_GO, KAFKA_GO = (pytest.param(name, marks=pytest.mark.campaign) for name in LIBRARIES)
#: kafka-go has neither idempotent nor transactional producers.
IDEMPOTENT = ("librdkafka", "java", "kafka-python", "aiokafka", FRANZ_GO)
FOREIGN = (*IDEMPOTENT, KAFKA_GO)
#: aiokafka has no calls about ACLs.
ADMINISTRATORS = ("librdkafka", "java", "kafka-python", FRANZ_GO, KAFKA_GO)
_numbers = itertools.count()


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with serving() as one:
        yield one


@pytest.fixture(scope="session")
def authority(data_root: Path) -> Path:
    """Returns a folder with a broker's key store and its authority's certificate, ``ca.pem``."""
    folder = data_root / "authority"
    run("tls", "create", folder, "localhost", "127.0.0.1")
    return folder


@pytest.fixture(scope="session")
def guarded(pytestconfig: pytest.Config, data_root: Path, authority: Path, issuer: Issuer) -> Iterator[Guarded]:
    """Starts the broker."""
    kind = GUARDED[pytestconfig.getoption("--broker")]
    keys = issuer.write_keys(data_root / "keys.json")
    made = kind(data_root / "guarded", users=["admin", *USERS], store=authority / "server.pem", keys=keys)
    made.config |= QUICK_GROUPS
    with made as broker:
        yield broker


@pytest.fixture(scope="session")
def jvm(issuer: Issuer) -> Iterator[Jvm]:
    """Starts a JVM whose clients may ask the issuer for tokens."""
    made = Jvm(options=[ALLOWED_URLS + issuer.url])
    yield made
    made.close()


@pytest.fixture(scope="session")
def clients(jvm: Jvm) -> dict[str, Client]:
    """Returns the client libraries by their names."""
    return {
        "librdkafka": ConfluentClient(),
        "java": JavaClient(jvm),
        "kafka-python": KafkaPythonClient(),
        "aiokafka": AiokafkaClient(),
        **{name: GoClient(name) for name in LIBRARIES},
    }


@pytest.fixture(scope="session")
def administrators(jvm: Jvm, data_root: Path) -> dict[str, Administrator]:
    """Returns the libraries that manage ACLs."""
    return {
        "librdkafka": ConfluentAdministrator(),
        "java": JavaAdministrator(jvm, data_root),
        "kafka-python": KafkaPythonAdministrator(),
        **{name: GoAdministrator(name) for name in LIBRARIES},
    }


@pytest.fixture(params=FOREIGN)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    return clients[request.param]


@pytest.fixture(params=IDEMPOTENT)
def idempotent_client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    """Returns a library with idempotent and transactional producers."""
    return clients[request.param]


@pytest.fixture(params=ADMINISTRATORS)
def administrator(request: pytest.FixtureRequest, administrators: dict[str, Administrator]) -> Administrator:
    return administrators[request.param]


@pytest.fixture
def admin(guarded: Guarded) -> Login:
    """Returns a user that may do everything."""
    return Login(guarded.guarded, "admin")


@pytest.fixture
def user(guarded: Guarded) -> Login:
    """Returns a user that has no rights yet."""
    return Login(guarded.guarded, USERS[next(_numbers)])


@pytest.fixture
def topic(guarded: Guarded) -> str:
    """Creates a topic of one record, ``first``."""
    name = f"{next(_numbers)}-flights"
    guarded.make_topic(name)
    ConfluentClient().write(Login(guarded.guarded, "admin"), name, b"first")
    return name


@pytest.fixture
def grant(user: Login, admin: Login) -> Grant:
    """Creates ACLs for the user and waits until they apply: ``grant(("READ", "TOPIC", "t"))``."""
    by = ConfluentAdministrator()

    def create(*rights: Sequence[str]) -> None:
        acls = [Acl(user.principal, *each) for each in rights]
        by.create(admin, acls)
        for acl in acls:
            until(lambda acl=acl: acl in by.describe(admin, acl.kind, acl.name), "the ACL")  # type: ignore[misc]

    return create


@pytest.fixture
def java_tool(jvm: Jvm, tmp_path: Path) -> JavaAdministrator:
    return JavaAdministrator(jvm, tmp_path)


@pytest.fixture
def tokens(java_tool: JavaAdministrator, user: Login) -> Tokens:
    return Tokens(java_tool, user)


@pytest.fixture
def token(tokens: Tokens) -> Token:
    made = tokens.create()
    until(lambda: made.name in tokens.describe(), "the token")
    return made
