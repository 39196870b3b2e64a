"""A question about transactions gets a complete answer, or raises an error."""

from __future__ import annotations

import pytest

from pyclient.admin.results import Results
from pyclient.admin.types import TransactionDescription, TransactionListing
from pyclient.errors import UnsupportedByBroker
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.protocol.errors import TransactionalIdAuthorizationFailed, TransactionalIdNotFound
from pyclient.spark.sink import transactions

A = PreparedTransaction("a", 1, 0)


class Refusing:
    """An admin client whose every request fails with this error."""

    def __init__(self, error):
        self.error = error

    def describe_transactions(self, ids, check):
        return Results({}, dict.fromkeys(ids, self.error))

    def end_transactions(self, some, *, commit, timeout, check):
        return Results({}, {one.transactional_id: self.error for one in some})


def test_a_forbidden_describe_is_not_mistaken_for_a_missing_transaction():
    with pytest.raises(TransactionalIdAuthorizationFailed):
        transactions.states(Refusing(TransactionalIdAuthorizationFailed("no")), ["a"])
    assert transactions.states(Refusing(TransactionalIdNotFound("gone")), ["a"]) == {}


def test_a_forbidden_commit_is_an_error_and_not_a_loss():
    with pytest.raises(TransactionalIdAuthorizationFailed):
        transactions.end(Refusing(TransactionalIdAuthorizationFailed("no")), [A], commit=True, timeout_s=1)
    assert set(transactions.end(Refusing(TransactionalIdNotFound("gone")), [A], commit=True, timeout_s=1)) == {A}


class Old(Refusing):
    """A broker that does not filter by duration; one transaction is open."""

    def list_transactions(self, *, states, longer_than_ms=-1):
        if longer_than_ms >= 0:
            raise UnsupportedByBroker("no")
        return [TransactionListing("a", 1, "Ongoing")]


def test_no_transaction_is_old_if_the_broker_cannot_filter_by_duration():
    assert transactions.opened(Old(TransactionalIdNotFound("gone")), "a", 1) == []


class Moving(Refusing):
    """A coordinator that moves while all brokers list their transactions, so no broker lists those of this coordinator.
    """

    def list_transactions(self, *, states, longer_than_ms=-1):
        return []

    def describe_transactions(self, ids, check):
        row = TransactionDescription(1, "Ongoing", A.producer_id, A.epoch, 60_000, 0, ())
        return Results({name: row for name in ids if name == "a"}, {})


def test_a_known_transaction_is_open_although_no_broker_lists_it():
    assert [one.transaction for one in transactions.opened(Moving(None), "a", 1, [A])] == [A]
    assert transactions.opened(Moving(None), "a", 1) == []
