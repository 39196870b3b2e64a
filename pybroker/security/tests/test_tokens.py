"""Tokens are found by their MACs, without a search through all, and counted by the principal that requested them."""

from __future__ import annotations

from pybroker.security.tokens import KnownTokens, Token, mac

KEY = "the-key-of-tokens"
BOB, CAROL = "User:bob", "User:carol"


def token(token_id: str, requester: str = BOB, expires_ms: int = 1) -> Token:
    return Token(token_id, "User:alice", requester, (), 0, expires_ms, 2)


def test_a_token_is_found_by_its_mac_until_it_is_gone() -> None:
    known = KnownTokens(KEY)
    known.update({"t1": token("t1"), "t2": token("t2")})
    known.update({"t1": token("t1", expires_ms=2)})
    assert [known.id_of(mac(KEY, each)) for each in ("t1", "t2", "t3")] == ["t1", "t2", None]
    assert known.id_of(mac("another key", "t1")) is None
    known.update({"t1": None, "t3": None})
    assert [known.id_of(mac(KEY, each)) for each in ("t1", "t2")] == [None, "t2"]


def test_tokens_are_counted_for_each_principal_that_has_asked() -> None:
    known = KnownTokens(KEY)
    known.update({"t1": token("t1"), "t2": token("t2"), "t3": token("t3", CAROL)})
    known.update({"t1": token("t1", expires_ms=2)})
    assert [known.requested_by(each) for each in (BOB, CAROL, "User:alice")] == [2, 1, 0]
    known.update({"t2": None, "t3": None})
    assert [known.requested_by(each) for each in (BOB, CAROL)] == [1, 0]


def test_a_token_with_many_renewers_counts_for_several() -> None:
    """The defect: a user without any right could store 160 MB of renewers' names in each broker."""
    known = KnownTokens(KEY)
    long = token("t1")._replace(renewers=("User:" + "x" * 1_495,))
    assert long.weight == 4
    known.update({"t1": long, "t2": token("t2")})
    known.update({"t1": long._replace(expires_ms=2)})
    assert known.requested_by(BOB) == 5
    known.update({"t1": None})
    assert known.requested_by(BOB) == 1


def test_no_mac_is_computed_to_find_a_token() -> None:
    known = KnownTokens(KEY)
    known.update({f"t{number}": token(f"t{number}") for number in range(100)})
    proof = mac(KEY, "t50")
    known._key = None  # type: ignore[assignment]
    assert known.id_of(proof) == "t50"
