"""Delegation tokens: decisions, nodes as Kafka writes them, and brokers that follow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from pybroker.cluster.decisions import token_changes
from pybroker.cluster.decisions.plan import Plan
from pybroker.cluster.decisions.token_changes import NewToken, Times, may_see
from pybroker.cluster.metadata import token_nodes
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.tests.harness import Members, run
from pybroker.security.tokens import Token
from pyclient.protocol import errors

ALICE, BOB, CAROL, DAVE = "User:alice", "User:bob c", "User:carol", "User:dave"
NOW, TIMES = 1_000, Times(100, 40)
WANTED = NewToken("t1", ALICE, BOB, (CAROL,), -1)
TOKEN = Token("t1", ALICE, BOB, (CAROL,), NOW, 1_040, 1_100)
IMAGE = MetadataImage(tokens={"t1": TOKEN})


def after(plan: Plan[object], image: MetadataImage = IMAGE) -> MetadataImage:
    for step in plan.steps:
        image = image.apply(step.delta)
    return image


@pytest.mark.parametrize(
    ("wanted", "expires", "most"), [(-1, 40, 100), (0, 40, 100), (70, 40, 70), (9, 9, 9), (999, 40, 100)]
)
def test_a_new_token_lives_as_long_as_requested_up_to_the_limit(wanted: int, expires: int, most: int) -> None:
    plan = token_changes.create(WANTED._replace(lifetime_ms=wanted), 0, TIMES, NOW)
    assert plan.results == TOKEN._replace(expires_ms=NOW + expires, most_ms=NOW + most)
    assert after(plan, MetadataImage()).tokens == {"t1": plan.results}


def test_a_token_that_is_too_large_for_a_node_is_refused() -> None:
    many = WANTED._replace(renewers=(CAROL,) * 2_000)
    with pytest.raises(errors.InvalidRequest):
        token_changes.create(many, 0, TIMES, NOW)


def test_the_number_of_tokens_of_a_principal_is_limited() -> None:
    assert token_changes.create(WANTED, token_changes.MOST_TOKENS - 1, TIMES, NOW).steps
    with pytest.raises(errors.PolicyViolation, match="User:bob c already has 10000 tokens"):
        token_changes.create(WANTED, token_changes.MOST_TOKENS, TIMES, NOW)


@pytest.mark.parametrize("who", [ALICE, BOB, CAROL])
def test_a_token_is_renewed_by_its_owner_requester_and_renewers_up_to_its_max_lifetime(who: str) -> None:
    for period, expires in ((-1, 1_060), (0, 1_020), (10, 1_030), (999, 1_100)):
        plan = token_changes.renew(IMAGE, "t1", who, period, TIMES, 1_020)
        assert (plan.results, after(plan).tokens["t1"].expires_ms) == (expires, expires)


@pytest.mark.parametrize(
    ("id", "who", "now", "error"),
    [
        (None, ALICE, NOW, errors.DelegationTokenNotFound),
        ("t2", ALICE, NOW, errors.DelegationTokenNotFound),
        ("t1", DAVE, NOW, errors.DelegationTokenOwnerMismatch),
        ("t1", ALICE, 1_041, errors.DelegationTokenExpired),
    ],
)
def test_unknown_expired_and_foreign_tokens_cannot_be_renewed_or_expired(
    id: str | None, who: str, now: int, error: type[errors.KafkaError]
) -> None:
    with pytest.raises(error):
        token_changes.renew(IMAGE, id, who, 1, TIMES, now)
    with pytest.raises(error):
        token_changes.expire(IMAGE, id, who, 1, now)


def test_a_negative_expiry_period_removes_a_token_and_another_one_sets_its_expiry() -> None:
    gone = token_changes.expire(IMAGE, "t1", CAROL, -1, 2_000)
    assert (gone.results, after(gone).tokens) == (2_000, {})
    later = token_changes.expire(IMAGE, "t1", CAROL, 7, NOW)
    assert after(later).tokens == {"t1": TOKEN._replace(expires_ms=1_007)}


def test_expired_tokens_are_removed() -> None:
    image = replace(IMAGE, tokens={"t1": TOKEN, "t2": TOKEN._replace(id="t2", expires_ms=1_090)})
    assert token_changes.remove_expired(image, 1_040).steps == []
    plan = token_changes.remove_expired(image, 1_050)
    assert plan.results == ["t1"]
    assert list(after(plan, image).tokens) == ["t2"]


@pytest.mark.parametrize(
    ("who", "owners", "is_allowed", "sees"),
    [
        (ALICE, None, False, True),
        (CAROL, None, False, True),
        (DAVE, None, False, False),
        (DAVE, None, True, True),
        (DAVE, {ALICE}, True, True),
        (ALICE, {DAVE}, True, False),
        (ALICE, set(), True, False),
    ],
)
def test_a_token_is_shown_to_its_owners_and_to_principals_with_the_right(
    who: str, owners: set[str] | None, is_allowed: bool, sees: bool
) -> None:
    assert may_see(TOKEN, who, owners, lambda token: is_allowed) is sees


def test_a_filter_of_many_owners_is_not_scanned_for_each_token() -> None:
    """A client may name thirty thousand owners, and there may be ten thousand tokens."""

    class Many(set[str]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("each owner is looked at")

    assert may_see(TOKEN, ALICE, Many([ALICE, DAVE]), lambda token: False)
    assert not may_see(TOKEN, ALICE, Many([DAVE]), lambda token: False)


def test_a_node_has_kafkas_json() -> None:
    data = token_nodes.encode(TOKEN)
    assert token_nodes.path("t1") == "/delegation_token/tokens/t1"
    assert json.loads(data) == {
        "version": 3, "owner": "User%3Aalice", "tokenRequester": "User%3Abob%20c", "renewers": ["User%3Acarol"],
        "issueTimestamp": 1_000, "maxTimestamp": 1_100, "expiryTimestamp": 1_040, "tokenId": "t1",
    }
    assert token_nodes.decode("t1", data) == TOKEN
    old = {**json.loads(data), "version": 1}
    del old["tokenRequester"]
    assert token_nodes.decode("t1", json.dumps(old).encode()) == TOKEN._replace(requester=ALICE)


@pytest.mark.parametrize(
    "change", [{"version": 4}, {"version": 0}, {"owner": "Group%3Aa"}, {"tokenId": "t2"}, {"maxTimestamp": "1"}]
)
def test_a_malformed_node_is_ignored(change: dict[str, object]) -> None:
    fields = {**json.loads(token_nodes.encode(TOKEN)), **change}
    with pytest.raises(ValueError, match=r"unknown|not a user|another token|not a number"):
        token_nodes.decode("t1", json.dumps(fields).encode())


def test_every_broker_follows_and_a_new_one_and_the_next_controller_have_them(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        for id in ("t1", "t2", "t3"):
            await service.change_tokens(
                lambda _, id=id: token_changes.create(WANTED._replace(id=id), 0, TIMES, NOW)  # type: ignore[misc]
            )
        await service.change_tokens(lambda image: token_changes.expire(image, "t2", ALICE, -1, NOW))
        await service.change_tokens(lambda image: token_changes.renew(image, "t3", ALICE, 90, TIMES, NOW))
        known = {"t1": TOKEN, "t3": TOKEN._replace(id="t3", expires_ms=1_090)}
        assert (await members.settled()).tokens == known
        assert (await members.start(3)).image.tokens == known
        await members.die(members.controller.id)
        assert (await members.settled()).tokens == known
        await members.controller.node.expire_tokens()
        assert (await members.settled()).tokens == {}

    run(tmp_path / "db", scenario)
