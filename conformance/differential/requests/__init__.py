"""The meaning of the verbs of a step: the request of each, and the facts that an actor learns from its reply."""

from typing import Any

from conformance.differential.broker_side import World
from conformance.differential.requests import acls, classic, consumer, offsets, transactions
from conformance.differential.requests.verb import Verb
from conformance.differential.step import Step
from harness.protocol.wire_client import message_class

VERBS: dict[str, Verb] = {
    **acls.VERBS,
    **classic.VERBS,
    **consumer.VERBS,
    **offsets.VERBS,
    **transactions.VERBS,
}


def request_fields(world: World, step: Step) -> dict[str, Any]:
    """Returns the fields of a step's request. A verb names the fields of all versions; this keeps those of the step's
    version.
    """
    verb = VERBS[step.verb]
    struct = message_class(verb.api + "Request")._struct
    return _of_version(struct, verb.build(world, world.actor(step.actor), step), step.version)


def _of_version(struct: Any, values: dict[str, Any], version: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, field in struct.fields.items():
        if name not in values or not field.for_version_q(version):
            continue
        value = values[name]
        if field.is_struct_array() and value is not None:
            value = [_of_version(field, row, version) for row in value]
        kept[name] = value
    return kept
