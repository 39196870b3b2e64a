"""The controller's decisions about users' SCRAM passwords (KIP-554), as pure functions.

The stored form of a password is one key of the user's configuration, under the mechanism's name. Either all changes of
a user are made, or none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pybroker.cluster.decisions.config_changes import Accepted, parts
from pybroker.cluster.decisions.plan import Plan, Step, write_configs
from pybroker.cluster.metadata.image import Configs, MetadataDelta, MetadataImage, ResourceType
from pybroker.security.sasl.scram_credentials import MOST_ITERATIONS, from_text, to_text
from pyclient.protocol import errors, scram
from pyclient.protocol.errors import KafkaError

TYPES: Final = {1: scram.SHA_256, 2: scram.SHA_512}
"""The mechanisms by their numbers in requests."""


class ScramChange(NamedTuple):
    """The new stored form of one user's password for a mechanism; without a salted password, a deletion."""

    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None
    is_new_only: bool = False
    """True if an existing password must stay."""

    def __repr__(self) -> str:
        return f"ScramChange(user={self.user!r}, mechanism={self.mechanism})"


Results = dict[str, KafkaError | None]
"""Results by user, in the order of the request."""


def alter(image: MetadataImage, changes: Sequence[ScramChange]) -> Plan[Results]:
    """Changes passwords. Returns None or an error for each user."""
    times = Counter((change.user, change.mechanism) for change in changes)
    results: Results = dict.fromkeys(change.user for change in changes)
    accepted: dict[tuple[ResourceType, str], Configs] = {}
    for change in changes:
        resource = (ResourceType.USER, change.user)
        try:
            if times[change.user, change.mechanism] > 1:
                raise errors.DuplicateResource("A user credential cannot be altered twice in the same request")
            before = accepted.get(resource) or image.configs(*resource)
            configs = _changed(before, change)
            if configs != before:
                accepted[resource] = configs
        except KafkaError as error:
            results[change.user] = results[change.user] or error
    accepted = {resource: configs for resource, configs in accepted.items() if results[resource[1]] is None}
    return Plan(results, [_step(image, part) for part in parts(image, accepted)] if accepted else [])


def _step(image: MetadataImage, part: Accepted) -> Step:
    operations = [write_configs(image, *resource, configs) for resource, configs in part.items()]
    return Step(operations, MetadataDelta(configs=part))


def _changed(before: Configs, change: ScramChange) -> Configs:
    """Returns the user's configuration with the change. Raises KafkaError."""
    if not change.user:
        raise errors.UnacceptableCredential("Username must not be empty")
    mechanism = TYPES.get(change.mechanism)
    if mechanism is None:
        raise errors.UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if change.salted_password is None:
        if mechanism.name not in before:
            raise errors.ResourceNotFound("Attempt to delete a user credential that does not exist")
        return {name: text for name, text in before.items() if name != mechanism.name}
    if change.iterations < scram.LEAST_ITERATIONS:
        raise errors.UnacceptableCredential("Too few iterations")
    if change.iterations > MOST_ITERATIONS:
        raise errors.UnacceptableCredential("Too many iterations")
    if not change.salt or not change.salted_password:
        raise errors.UnacceptableCredential("Salt and salted password must not be empty")
    if change.is_new_only and mechanism.name in before:
        return before
    credential = scram.credential(mechanism, change.salted_password, change.salt, change.iterations)
    return {**before, mechanism.name: to_text(credential)}


class ScramUser(NamedTuple):
    """The public part of a user's passwords: the iterations, by the mechanism's number."""

    name: str
    iterations: dict[int, int]


def names_of_users(image: MetadataImage) -> list[str]:
    """Returns the names of all users that may have a password, in order."""
    return sorted(name for kind, name in image.resource_configs if kind is ResourceType.USER)


def users(image: MetadataImage, names: Iterable[str] | None = None) -> list[ScramUser]:
    """Returns the named users, by default all users, without those that have no SCRAM password."""
    wanted = names_of_users(image) if names is None else names
    found = (ScramUser(name, _iterations(image.configs(ResourceType.USER, name))) for name in wanted)
    return [user for user in found if user.iterations]


def _iterations(configs: Configs) -> dict[int, int]:
    found = {}
    for number, mechanism in TYPES.items():
        try:
            found[number] = from_text(configs.get(mechanism.name, "")).iterations
        except ValueError:
            continue  # there is no password, or a malformed one
    return found
