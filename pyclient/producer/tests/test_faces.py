"""The blocking and the asyncio producer behave alike, and differ only in how they wait."""

from __future__ import annotations

import inspect

import pytest

from pyclient import Producer, aio
from pyclient.producer.errors import TransactionError

OF_ONE = {"close"}
"""The methods whose docstrings differ: that of one producer is about callbacks, that of the other about cancellation.
"""
SHARED = sorted(
    name for name, member in vars(Producer).items() if not name.startswith("_") and inspect.isfunction(member)
)


def test_blocking_and_asyncio_producers_have_the_same_methods():
    others = {
        name for name, member in vars(aio.Producer).items() if not name.startswith("_") and inspect.isfunction(member)
    }
    assert set(SHARED) == others


@pytest.mark.parametrize("name", SHARED)
def test_a_method_has_the_same_signature_and_docstring_in_both_producers(name):
    ours, others = getattr(Producer, name), getattr(aio.Producer, name)
    assert list(inspect.signature(ours).parameters.values()) == list(inspect.signature(others).parameters.values())
    if name not in OF_ONE:
        assert inspect.getdoc(ours) == inspect.getdoc(others)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction", "prepare_transaction"])
def test_a_producer_without_transactions_works_after_a_refused_commit(end):
    with Producer("127.0.0.1:1") as producer:
        with pytest.raises(TransactionError):
            getattr(producer, end)()
        assert producer.direct
