"""Defects of what clients are allowed to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofs.defects import Patch, defect
from pybroker.cluster.metadata.image import PartitionImage
from pybroker.coordinator.group.join_responses import refusal
from pybroker.handlers import fetch, join_group, metadata
from pybroker.handlers.common.call import ForwardedCall
from pybroker.handlers.common.security.permitted_fetch import PermittedFetch
from pybroker.replication.fetching import Fetch
from pyclient.protocol import JoinGroup, Metadata, errors

TESTS = "pybroker/tests/security/test_rights_in_time.py"
REFUSALS = "pybroker/tests/security/test_rights.py"


@defect(f"{TESTS}::test_a_waiting_fetch_returns_no_topic_that_was_forbidden_meanwhile")
def a_fetch_that_waits_is_asked_for_once() -> list[Patch]:
    """As in Kafka, a waiting client goes on reading after its right was revoked."""
    return [(PermittedFetch, "read_again", Fetch.read_again)]


@defect(f"{TESTS}::test_the_controller_decides_by_the_rights_of_the_client")
def what_a_broker_hands_on_is_the_brokers_own() -> list[Patch]:
    """A client may do everything that needs the controller if it asks another broker."""
    return [(ForwardedCall, "is_of_broker", property(lambda self: True))]


@defect(f"{REFUSALS}::test_a_refused_fetch_lists_no_aborted_transactions")
def a_refused_fetch_has_null_for_aborted_transactions() -> list[Patch]:
    """Kafka sends an empty list."""
    known = tuple(error for error in fetch.WITHOUT_LOG if error is not errors.TopicAuthorizationFailed)
    return [(fetch, "WITHOUT_LOG", known)]


@defect(f"{REFUSALS}::test_a_refused_join_names_no_member")
def a_refused_join_names_a_member() -> list[Patch]:
    """Kafka sends an empty member id."""

    def naming(error: Any, member_id: str) -> JoinGroup.Response:
        return refusal(error, member_id or "m")

    return [(join_group, "refusal", naming)]


@defect(
    "pybroker/handlers/tests/test_metadata.py"
    "::test_only_a_client_that_may_describe_a_topic_waits_for_its_suspected_leader"
)
def every_client_waits_for_suspected_leaders() -> list[Patch]:
    """The time of an answer tells a client without rights that a topic exists."""

    def asked_for(request: Metadata.Request, call: Any) -> Iterator[PartitionImage]:
        topics = call.broker.metadata.image.topics
        names = [topic.name for topic in request.topics] if request.topics else list(topics)
        return (partition for name in names if name in topics for partition in topics[name].partitions)

    return [(metadata, "_asked_for", asked_for)]
