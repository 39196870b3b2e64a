"""How many partitions a client may create and delete (``controller_mutation_rate``, KIP-599).

A topic costs its partitions. Once a client owes some, it is refused more until they are made up for. In older versions
of the APIs, which have no error for that, it is only held back. What fails anyhow costs nothing.

A topic that Metadata would create costs as much. The client is told that there is none, as in Kafka, and asks again.

The broker that is asked counts: clients ask the controller, unless it has just become another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.cluster.decisions.plan import Outcome
from pybroker.cluster.metadata.image import TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, settled, walk
from pyclient.protocol import errors

if TYPE_CHECKING:  # it costs a broker without quotas nothing
    from pybroker.quotas.client_quotas import Permits

Handler = Callable[[Any, Call], Awaitable[Any]]


class Mutation(NamedTuple):
    """How an API changes topics. ``lists``: the fields of the request's items, and of their answers."""

    lists: Callable[[int], tuple[str, str]]
    """By the version."""
    strict_since: int
    """The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""
    key: Callable[[Any, Call], Hashable]
    """What an item names."""
    cost: Callable[[Any, Call], int]
    """The partitions that it changes; none where it fails."""
    is_permitted: Callable[[Any, Call], bool]
    """Whether the client has the right to it. What it may not do fails, and says nothing of what there is."""
    refused: Callable[[Any, errors.KafkaError], Any]
    """The answer to an item."""


def _permits_of(call: Call) -> Permits | None:
    """What the client may still do, if it has a quota. Brokers have none."""
    quotas, connection = call.broker.quotas, call.connection
    if quotas is None or connection.broker_id is not None:
        return None
    now_ms = call.broker.clock.monotonic_ms()
    permits: Permits | None = quotas.share(connection.principal, call.client_id, now_ms).mutations
    return permits


def within_quota(mutation: Mutation) -> Callable[[Handler], Handler]:
    """A handler that does no more than the client's quota allows."""

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
    times = Counter(mutation.key(item, call) for item in items)
    accepted, refused = [], []

    def sort_out() -> Paced[None]:
        for item in items:
            may_succeed = times[mutation.key(item, call)] == 1 and mutation.is_permitted(item, call)
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
    getattr(response, told).extend(mutation.refused(item, error) for item in refused)
    response.throttle_time_ms = max(0, delay_ms - (call.broker.clock.monotonic_ms() - begun_ms))
    return response


async def made_within_quota(
    names: Sequence[str],
    cost: Callable[[str, Call], int],
    make: Callable[[Sequence[str]], Awaitable[dict[str, Outcome]]],
    call: Call,
) -> dict[str, Outcome]:
    """What ``make`` makes of these topics, as far as the client's quota allows; none where it does not.

    Raises what ``make`` raises. A topic that is not made, or that somebody else has made, costs nothing.
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
