"""Which quota applies to a client, and which clients share it."""

from __future__ import annotations

import pytest

from pybroker.quotas.client_quotas import LONGEST, MOST_CLIENTS, ClientQuotas, has_client_quotas
from pybroker.quotas.keys import CONNECTIONS, DEFAULT, FETCH, MUTATIONS, PRODUCE, REQUEST, Entity
from pybroker.quotas.rate import Windows

LEVELS = (
    Entity("alice", "app"),
    Entity("alice", DEFAULT),
    Entity("alice"),
    Entity(DEFAULT, "app"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT),
    Entity(None, "app"),
    Entity(None, DEFAULT),
)
"""The quotas' entities, from the most specific to the most general."""


def quotas(bounds: dict[Entity, float], key: str = PRODUCE) -> ClientQuotas:
    made = ClientQuotas(Windows(), Windows())
    made.update({entity: {key: bound} for entity, bound in bounds.items()})
    return made


def bound(made: ClientQuotas, user: str = "alice", client: str | None = "app") -> float | None:
    share = made.share(f"User:{user}", client, 0)
    return None if share.produce is None else share.produce.bound


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_quota_applies(level: int) -> None:
    below = {entity: 1000.0 + number for number, entity in enumerate(LEVELS) if number >= level}
    assert bound(quotas(below)) == 1000 + level


@pytest.mark.parametrize(
    ("entity", "others"),
    [
        (Entity("alice", "app"), [("alice", "other"), ("bob", "app")]),
        (Entity("alice", DEFAULT), [("bob", "app")]),
        (Entity("alice"), [("bob", "app")]),
        (Entity(DEFAULT, "app"), [("alice", "other")]),
        (Entity(None, "app"), [("alice", "other")]),
    ],
)
def test_a_quota_does_not_apply_to_another_user_or_client_id(entity: Entity, others: list[tuple[str, str]]) -> None:
    made = quotas({entity: 5.0})
    assert bound(made) == 5
    assert [bound(made, *other) for other in others] == [None] * len(others)


@pytest.mark.parametrize(
    ("entity", "is_shared"),
    [
        (Entity("alice"), {("alice", "other")}),
        (Entity(DEFAULT), {("alice", "other")}),
        (Entity(None, "app"), {("bob", "app")}),
        (Entity(None, DEFAULT), {("bob", "app")}),
        (Entity("alice", DEFAULT), set()),
        (Entity(DEFAULT, DEFAULT), set()),
        (Entity(DEFAULT, "app"), set()),
        (Entity("alice", "app"), set()),
    ],
)
def test_a_quota_for_a_user_or_a_client_id_is_shared_by_its_clients(
    entity: Entity, is_shared: set[tuple[str, str]]
) -> None:
    made = quotas({entity: 5.0})
    own = made.share("User:alice", "app", 0).produce
    assert own is not None
    for user, client in (("alice", "other"), ("bob", "app"), ("bob", "other")):
        assert (made.share(f"User:{user}", client, 0).produce is own) == ((user, client) in is_shared)


def test_a_client_without_a_client_id_has_the_default_client_quota() -> None:
    made = quotas({Entity(None, DEFAULT): 5.0, Entity(None, "app"): 7.0})
    assert bound(made, "alice", None) == bound(made, "alice", "") == 5


def test_each_type_of_quota_is_looked_up_separately() -> None:
    made = ClientQuotas(Windows(), Windows(2, 500))
    of_alice = {Entity("alice", "app"): {PRODUCE: 1.0}, Entity("alice"): {FETCH: 2.0}}
    made.update({**of_alice, Entity(DEFAULT): {MUTATIONS: 3.0}})
    share = made.share("User:alice", "app", 0)
    assert share.produce is not None
    assert share.fetch is not None
    assert share.mutations is not None
    assert (share.produce.bound, share.fetch.bound, share.mutations.bound) == (1, 2, 3)
    assert share.request is None
    share.mutations.take(4, 0)
    assert share.mutations.delay_ms(0) == pytest.approx(333)


def test_a_new_quota_applies_at_once_and_counts_earlier_usage() -> None:
    made = quotas({Entity("alice"): 1000.0})
    before = made.share("User:alice", "app", 0).produce
    assert before is not None
    assert before.use(10_000, 0) == 0
    made.update({Entity("alice"): {PRODUCE: 500.0}})
    after = made.share("User:alice", "app", 0).produce
    assert after is not None
    assert after.delay_ms(0) == 10_000
    made.update({})
    assert made.share("User:alice", "app", 0).produce is None


def test_the_throttle_time_of_a_request_quota_is_at_most_one_window() -> None:
    made = quotas({Entity("alice"): 1.0}, REQUEST)
    share = made.share("User:alice", "app", 0)
    assert share.request is not None
    assert share.request.use(100, 0) == 1000


def test_a_fetch_over_its_quota_must_wait_unless_nothing_else_was_fetched() -> None:
    made = quotas({Entity("alice"): 1000.0}, FETCH)
    fetch = made.share("User:alice", "app", 0).fetch
    assert fetch is not None
    assert fetch.most_at_once == 10_000
    assert fetch.use_or_wait(30_000, 0) == (True, 20_000)
    assert fetch.use_or_wait(1, 5000) == (False, 20_001)
    assert fetch.use_or_wait(30_000, 5000)[0] is False
    assert fetch.use_or_wait(1, 20_000) == (True, 0)


def test_the_number_of_remembered_clients_is_limited() -> None:
    made = quotas({Entity(None, DEFAULT): 1000.0})
    for number in range(2 * MOST_CLIENTS):
        share = made.share("User:alice", str(number), number)
        assert share.produce is not None
        share.produce.use(1, number)
    assert len(made._produce) <= MOST_CLIENTS
    assert len(made.known) <= MOST_CLIENTS


@pytest.mark.parametrize("key", [PRODUCE, MUTATIONS])
def test_invented_client_ids_do_not_make_the_broker_forget_usage(key: str) -> None:
    made = quotas({Entity("alice"): 1000.0, Entity(None, DEFAULT): 1000.0}, key)

    def use(user: str, client: str, amount: float) -> float:
        share = made.share(f"User:{user}", client, 0)
        if key == PRODUCE:
            assert share.produce is not None
            return share.produce.use(amount, 0)
        assert share.mutations is not None
        share.mutations.take(amount, 0)
        return share.mutations.delay_ms(0)

    delay_ms = use("alice", "app", 20_000)
    assert delay_ms > 0
    for number in range(2 * MOST_CLIENTS):
        assert use("bob", str(number), 1) == 0
    assert use("alice", "app", 0) == delay_ms


def test_a_user_quota_limits_all_client_ids_together_and_a_default_client_quota_each_id() -> None:
    """In Kafka the quota of the default client applies to each id, so only a quota of the user limits the user."""

    def without_delay(entity: Entity) -> int:
        """Returns how many bytes the user sends with a hundred client ids until each has to wait."""
        made, sent = quotas({entity: 1000.0}), 0
        for number in range(100):
            share = made.share("User:alice", str(number), 0)
            assert share.produce is not None
            while not share.produce.use(1000, 0):
                sent += 1000
        return sent

    for shared in (Entity("alice"), Entity(DEFAULT)):
        assert without_delay(shared) == 10_000
    for own in (Entity("alice", DEFAULT), Entity(DEFAULT, DEFAULT), Entity(None, DEFAULT)):
        assert without_delay(own) == 100 * 10_000


def test_a_quota_of_an_ip_address_is_not_a_client_quota() -> None:
    assert not has_client_quotas({Entity(ip="10.0.0.1"): {CONNECTIONS: 1.0}, Entity("alice"): {}})
    assert has_client_quotas({Entity("alice"): {PRODUCE: 1.0}})


def test_long_client_ids_with_the_same_beginning_share_one_quota() -> None:
    made = quotas({Entity(DEFAULT, DEFAULT): 1})
    shares = {id(made.share("User:alice", "x" * LONGEST + str(number), 0)) for number in range(9)}
    assert len(shares) == 1
    assert list(made.known) == [("User:alice", "x" * LONGEST)]
