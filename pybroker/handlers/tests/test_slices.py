"""A request of many items is answered in slices as it would be as a whole."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from pybroker.handlers import SERVED
from pybroker.handlers.common import slices
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import (
    AlterPartitionReassignments,
    DeleteTopics,
    errors,
)


def test_the_first_error_of_a_request_is_told_with_its_message(node: Node) -> None:
    kind, served = AlterPartitionReassignments, count()

    def handle(request: Any, call: Any) -> Any:
        number = next(served)
        if not number:
            return kind.Response()
        return kind.Response(error_code=errors.NotController.code, error_message=f"in slice {number}")

    partitions = [kind.Request.ReassignablePartition(partition_index=index) for index in range(3000)]
    request = kind.Request(topics=[kind.Request.ReassignableTopic(name="t", partitions=partitions)])
    response = node.run(slices.sliced(handle, slices.SPLITS[kind])(request, node.call(1)))
    assert next(served) > 2
    assert (response.error_code, response.error_message) == (errors.NotController.code, "in slice 1")


def test_a_slice_is_as_large_as_a_write_to_the_store_is_worth(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes; and as small as the controller takes it from another broker."""
    sizes: list[int] = []

    def handle(request: Any, call: Any) -> Any:
        sizes.append(len(request.topic_names))
        return DeleteTopics.Response()

    for took_s in (1.0, 0.0):
        times = count(0, took_s)
        monkeypatch.setattr(node.turns, "busy_s", lambda times=times: next(times))
        request = DeleteTopics.Request(topic_names=[f"t{number}" for number in range(1000)])
        node.run(slices.sliced(handle, slices.SPLITS[DeleteTopics])(request, node.call(5)))
    assert sizes == [100] * 10 + [100] + [200] * 4 + [100]


@pytest.mark.parametrize("api", list(slices.SPLITS), ids=lambda api: api.name)
def test_every_split_names_fields_that_are_there(api: Any) -> None:
    for split in slices.SPLITS[api]:
        for message, path in ((api.Request, split.asked), (api.Response, split.told)):
            kind = message
            for depth, name in enumerate(path):
                assert isinstance(getattr(kind(), name) or [], list)
                if depth < len(path) - 1:
                    kind = next(
                        nested
                        for nested in vars(message).values()
                        if isinstance(nested, type) and path[depth + 1] in getattr(nested, "__slots__", ())
                    )
    assert SERVED[api] is not None
