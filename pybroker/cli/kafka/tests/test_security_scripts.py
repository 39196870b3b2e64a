"""kafka-acls, kafka-delegation-tokens, and the quotas of kafka-configs, in the words of Kafka's scripts."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker.cli.kafka.common.client_quotas import java_double
from pybroker.cli.kafka.delegation_tokens import HEADS
from pybroker.cli.tests.running import Shell
from pybroker.cli.tests.scripted import Users, serving
from pybroker.cli.tests.secured import HOUR_MS, NOW_MS, Acls, Quotas, Tokens
from pyclient.core.tests.scripted import ScriptedBroker

HMAC = base64.b64encode(b"hmac-1").decode()
RATES = "producer_byte_rate=1024,consumer_byte_rate=2e7"


class World(NamedTuple):
    """Runs Kafka's scripts against a scripted broker."""

    shell: Shell
    acls: Acls
    quotas: Quotas
    tokens: Tokens


@pytest.fixture
def world() -> Iterator[World]:
    made: list[World] = []

    def prepare(broker: ScriptedBroker) -> None:
        Users(broker)
        made.append(World(Shell(), Acls(broker), Quotas(broker), Tokens(broker)))

    with serving(prepare) as address:
        yield made[0]._replace(shell=Shell(address))


def current(name: str, *entries: str, kind: str = "TOPIC", pattern: str = "LITERAL") -> str:
    """Returns what the script prints about a resource."""
    where = f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern})"
    return f"Current ACLs for resource `{where}`:\n{lines(*entries)}\n"


def lines(*entries: str) -> str:
    return "".join(f"\t(principal={who}, host={host}, operation={operation}, permissionType={permission})\n"
                   for who, host, operation, permission in map(str.split, entries))  # fmt: skip


def test_acls_are_added_listed_and_removed(world: World) -> None:
    def run(*words: str, stdin: str = "") -> str:
        return world.shell.done("kafka-acls", *words, stdin=stdin).out

    new = ("--allow-principal", "User:bob", "--allow-host", "10.0.0.1", "--operation", "Read", "--topic", "t")
    told = current("t", "User:bob 10.0.0.1 READ ALLOW")
    assert run("--add", *new) == told.replace("Current", "Adding").replace("`:\n", "`: \n ")
    assert run("--add", *new).endswith("operation=READ, permissionType=ALLOW)) already exists.\n")
    assert run("--list") == run("--list", "--topic", "t") == told
    assert run("--list", "--topic", "other") == ""
    assert run("--list", "--principal", "User:eve") == "ACLs for principal `User:eve`\n"
    run("--add", "--deny-principal", "User:*", "--topic", "te", "--resource-pattern-type", "prefixed")
    denied = current("te", "User:* * ALL DENY", pattern="PREFIXED")
    assert run("--list", "--topic", "test", "--resource-pattern-type", "match") == denied
    question = "Are you sure you want to remove ACLs: \n " + lines("User:bob 10.0.0.1 READ ALLOW")
    assert run("--remove", *new, stdin="n\n").startswith(question + " from resource filter `ResourcePattern(")
    assert len(world.acls.there) == 2
    assert run("--remove", *new, stdin="y\n").endswith("? (y/n)\n")
    assert run("--list") == denied
    all_of = ("--remove", "--topic", "te", "--resource-pattern-type", "prefixed")
    assert "delete all ACLs for resource filter" in run(*all_of, stdin="n\n")
    assert run(*all_of, "--force") == ""
    assert world.acls.there == []


def test_a_role_is_added_and_removed_as_one(world: World) -> None:
    role = ("--producer", "--idempotent", "--consumer", "--topic", "t", "--group", "g", "--transactional-id", "x")
    world.shell.done("kafka-acls", "--add", "--allow-principal", "User:alice", *role)
    rights = {(acl[0].name, acl[5].name) for acl in world.acls.there}
    assert rights == {
        *(("TOPIC", name) for name in ("READ", "WRITE", "CREATE", "DESCRIBE")),
        *(("TRANSACTIONAL_ID", "WRITE"), ("TRANSACTIONAL_ID", "DESCRIBE")),
        *(("GROUP", "READ"), ("CLUSTER", "IDEMPOTENT_WRITE")),
    }
    assert len(world.acls.there) == len(rights)
    world.shell.done("kafka-acls", "--remove", "--allow-principal", "User:alice", *role, "--force")
    assert world.acls.there == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "exactly one of --add, --remove, --list"),
        (("--add", "--topic", "t"), "You must specify one of: --allow-principal, --deny-principal"),
        (("--add", "--allow-principal", "User:a"), "You must provide at least one resource"),
        (("--add", "--allow-principal", "a", "--topic", "t"), "in format principalType:principalName"),
        (
            ("--add", "--allow-principal", "User:a", "--group", "t", "--operation", "Write"),
            "ResourceType GROUP only supports operations READ,DESCRIBE,",
        ),
        (
            ("--add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "any"),
            "A '--resource-pattern-type' value of 'ANY' is not valid when adding acls.",
        ),
        (("--add", "--principal", "User:a", "--topic", "t"), "only available if --list is set"),
        (("--add", "--allow-principal", "User:a", "--producer"), "With --producer you must specify a --topic"),
        (("--add", "--allow-principal", "User:a", "--consumer", "--topic", "t"), "With --consumer you must specify"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"), "if --producer is set"),
    ],
)
def test_kafka_acls_refuses_what_the_script_refuses(world: World, words: tuple[str, ...], told: str) -> None:
    assert told in world.shell.refused("kafka-acls.sh", *words, code=2)
    assert world.acls.there == []


def test_quotas_of_users_clients_and_addresses(world: World) -> None:
    def run(*words: str) -> str:
        return world.shell.done("kafka-configs", *words).out

    pair = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
    assert run("--alter", *pair, "--add-config", RATES) == "Completed updating config for user alice.\n"
    told = "Quota configs for user-principal 'alice', the default client-id are {}\n"
    rates = "consumer_byte_rate=2.0E7, producer_byte_rate=1024.0"
    assert run("--describe", *pair) == told.format(rates)
    assert run("--describe", "--entity-type", "users", "--entity-type", "clients") == told.format(rates)
    assert run("--describe", "--user", "alice") == run("--describe", "--entity-type", "clients") == ""
    done = "Completed updating default config for clients in the cluster.\n"
    assert run("--alter", "--client-defaults", "--add-config", "request_percentage=50") == done
    shown = "Quota configs for the default client-id are request_percentage=50.0\n"
    assert run("--describe", "--entity-type", "clients", "--entity-default") == shown
    run("--alter", "--entity-type", "ips", "--entity-name", "10.0.0.7", "--add-config", "connection_creation_rate=5")
    assert run("--describe", "--ip", "10.0.0.7") == "Quota configs for ip '10.0.0.7' are connection_creation_rate=5.0\n"
    run("--alter", *pair, "--delete-config", "consumer_byte_rate")
    assert run("--describe", "--user", "alice", "--client-defaults") == told.format("producer_byte_rate=1024.0")
    gone = world.shell.refused("kafka-configs", "--alter", *pair, "--delete-config", "consumer_byte_rate")
    assert "Invalid config(s): consumer_byte_rate" in gone


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--user", "a", "--ip", "1.1.1.1"), "Only 'users' and 'clients' entity types may be specified together"),
        (("--user", "a", "--user-defaults"), "Duplicate entity type(s) specified: users"),
        (("--entity-type", "users", "--entity-name", "a", "--entity-name", "b"), "More entity names specified than"),
        (("--client", "a", "--add-config", "SCRAM-SHA-256=[password=x]"), "Only quota configs can be added"),
        (("--ip", "1.1.1.1", "--add-config", "request_percentage=1"), "Only connection quota configs can be added"),
        (("--client", "a", "--add-config", "request_percentage=x"), "Cannot parse quota configuration value"),
        (("--client", "a", "--delete-config", "retention.ms"), "Only quota configs can be deleted for 'clients'"),
        (("--entity-type", "clients", "--add-config", "request_percentage=1"), "--entity-name is missing"),
    ],
)
def test_kafka_configs_refuses_what_the_script_refuses(world: World, words: tuple[str, ...], told: str) -> None:
    assert told in world.shell.refused("kafka-configs", "--alter", *words, code=2)
    assert world.quotas.there == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0.0"), (1.0, "1.0"), (0.001, "0.001"), (9_999_999.0, "9999999.0"), (1e7, "1.0E7")),
        *((0.0005, "5.0E-4"), (12_345_678.5, "1.23456785E7"), (1e22, "1.0E22"), (1.5e-7, "1.5E-7")),
        *((1_048_576_000.0, "1.048576E9"), (float("inf"), "inf")),
    ],
)
def test_a_number_is_shown_as_java_shows_it(value: float, text: str) -> None:
    assert java_double(value) == text


def test_tokens_are_created_renewed_expired_and_described(world: World) -> None:
    def run(*words: str) -> list[str]:
        return world.shell.done("kafka-delegation-tokens", *words).out.splitlines()

    def date(ms: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M", time.localtime(ms // 1000))

    owner, renewer = ("--owner-principal", "User:alice"), ("--renewer-principal", "User:bob")
    made = run("--create", *owner, *renewer, "--max-life-time-period", "-1")
    assert made[0] == "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
    assert made[1] == "Created delegation token with tokenId : token-1"
    assert made[3].split() == list(HEADS)
    dates = [date(NOW_MS), date(NOW_MS + HOUR_MS), date(NOW_MS + 7 * 24 * HOUR_MS)]
    assert made[5].split() == ["token-1", HMAC, "User:alice", "User:admin", "[User:bob]", *dates]
    described = run("--describe", *owner)
    assert described[:2] == [
        "Calling describe token operation for owners: [User:alice]",
        "Total number of tokens : 1",
    ]
    assert described[2:] == made[3:]
    assert run("--describe")[0] == "Calling describe token operation for current user."
    assert run("--renew", "--hmac", HMAC, "--renew-time-period", "3600000") == [
        f"Calling renew token operation with hmac :{HMAC} , renew-time-period :3600000",
        f"Completed renew operation. New expiry date : {date(NOW_MS + HOUR_MS)}",
    ]
    assert run("--expire", "--hmac", HMAC, "--expiry-time-period", "-1") == [
        f"Calling expire token operation with hmac :{HMAC} , expire-time-period :-1",
        f"Completed expire operation. New expiry date : {date(NOW_MS)}",
    ]
    assert world.tokens.there == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--create", "--describe"), "exactly one of --create"),
        (("--create",), "--max-life-time-period is missing"),
        (("--renew", "--renew-time-period", "1"), "--hmac is missing"),
        (("--expire", "--hmac", "ab!", "--expiry-time-period", "1"), "--hmac: it is not base64"),
        (("--create", "--renewer-principal", "bob", "--max-life-time-period", "1"), "principalType:principalName"),
    ],
)
def test_kafka_delegation_tokens_refuses_incomplete_commands(
    world: World, words: tuple[str, ...], told: str
) -> None:
    text = world.shell.refused("kafka-delegation-tokens", *words, code=2)
    assert told in text
    assert "ab!" not in text
