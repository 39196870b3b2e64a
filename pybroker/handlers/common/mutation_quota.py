"""Limits how many partitions a client may create and delete (``controller_mutation_rate``, KIP-599).

A topic costs as many permits as it has partitions. If a client has overdrawn its quota, the broker refuses further
topics until the client has permits again. Older versions of the APIs have no error for that, so the broker only
throttles their clients. A topic that fails for another reason costs nothing.

A topic that Metadata would create costs as much. Beyond its quota the client is told that the topic does not exist, as
in Kafka, and asks again.

The broker that receives the request does the counting. This is the controller, unless the controller has just changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.cluster.decisions.plan import Outcome
from pybroker.cluster.metadata.image import TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_pieces, repeated, settled, walk
from pyclient.protocol import errors

if TYPE_CHECKING:  # so that a broker without quotas does not import it
    from pybroker.quotas.client_quotas import Permits

Handler = Callable[[Any, Call], Awaitable[Any]]


class Mutation(NamedTuple):
    """How an API changes topics: which items its request has, and what each item costs."""

    lists: Callable[[int], tuple[str, str]]
    """Returns the names of the fields with the request's items and their results, for a version."""
    strict_since: int
    """The first version with THROTTLING_QUOTA_EXCEEDED."""
    key: Callable[[Any, Call], Hashable]
    """Returns a value that identifies an item's topic."""
    cost: Callable[[Any, Call], int]
    """Returns how many partitions an item creates or deletes; 0 if it fails."""
    is_permitted: Callable[[Any, Call], bool]
    """Returns True if the client may change the item's topic. Otherwise the item fails, and the answer must not reveal
    which topics exist.
    """
    refused: Callable[[Any, errors.KafkaError], Any]
    """Returns the result of an item that is refused with an error."""


def _permits_of(call: Call) -> Permits | None:
    """Returns the client's permits, None if it has no quota. Brokers never have one."""
    quotas, connection = call.broker.quotas, call.connection
    if quotas is None or connection.broker_id is not None:
        return None
    now_ms = call.broker.clock.monotonic_ms()
    permits: Permits | None = quotas.share(connection.principal, call.client_id, now_ms).mutations
    return permits


def within_quota(mutation: Mutation) -> Callable[[Handler], Handler]:
    """Wraps a handler so that it gets only items within the client's quota."""

    def limited(handle: Handler) -> Handler:
        @wraps(handle)
        def route(request: Any, call: Call) -> Awaitable[Any]:
            permits = _permits_of(call)
            return handle(request, call) if permits is None else _serve(request, call, permits, mutation, handle)

        return route

    return limited


async def _serve(request: Any, call: Call, permits: Permits, mutation: Mutation, handle: Handler) -> Any:
    asked, told = mutation.lists(call.version)
    items, begun_ms = getattr(request, asked), call.broker.clock.monotonic_ms()
    is_strict = call.version >= mutation.strict_since
    twice = await settled(walk(repeated(mutation.key(item, call) for item in items), call))
    accepted, refused = [], []

    def sort_out() -> Paced[None]:
        for item in items:
            may_succeed = mutation.key(item, call) not in twice and mutation.is_permitted(item, call)
            cost = mutation.cost(item, call) if may_succeed else 0
            if cost > 0 and is_strict and permits.delay_ms(begun_ms):
                refused.append(item)
            else:
                accepted.append(item)
                if cost > 0:
                    permits.take(cost, begun_ms)
            yield

    await settled(walk(sort_out(), call))
    delay_ms = permits.delay_ms(begun_ms) if refused or not is_strict else 0
    setattr(request, asked, accepted)
    response = await handle(request, call)
    error = errors.ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
    results = getattr(response, told)
    await in_pieces(refused, lambda some: results.extend(mutation.refused(item, error) for item in some), call)
    response.throttle_time_ms = max(0, delay_ms - (call.broker.clock.monotonic_ms() - begun_ms))
    return response


async def made_within_quota(
    names: Sequence[str],
    cost: Callable[[str, Call], int],
    make: Callable[[Sequence[str]], Awaitable[dict[str, Outcome]]],
    call: Call,
) -> dict[str, Outcome]:
    """Calls ``make`` with the topics within the client's quota, and returns its outcomes, without the other topics.

    Raises what ``make`` raises. A topic that this request did not create costs nothing.
    """
    permits = _permits_of(call)
    if permits is None:
        return await make(names)
    now_ms, costs = call.broker.clock.monotonic_ms(), dict[str, int]()
    for name in names:
        if not permits.delay_ms(now_ms):
            costs[name] = cost(name, call)
            permits.take(costs[name], now_ms)
    made: dict[str, Outcome] = {}
    try:
        if costs:
            made = await make(list(costs))
    finally:
        now_ms = call.broker.clock.monotonic_ms()
        permits.take(-sum(each for name, each in costs.items() if not isinstance(made.get(name), TopicImage)), now_ms)
    return made
