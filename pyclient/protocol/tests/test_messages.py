"""Message classes: construction, defaults, comparison, text, copies."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cy.wire.messages import Message
from pyclient.protocol import ZERO_UUID, ConsumerGroupDescribe, Fetch, Produce, apis
from pyclient.protocol.schema import read_bodies


def test_fields_have_the_defaults_of_the_schema() -> None:
    request = Fetch.Request()
    assert (request.replica_id, request.max_bytes, request.rack_id) == (-1, 0x7FFFFFFF, "")
    assert (request.cluster_id, request.topics) == (None, [])
    assert Fetch.Request.FetchTopic().topic_id == ZERO_UUID


def test_every_instance_has_its_own_lists_and_structs() -> None:
    one, other = Fetch.Request(), Fetch.Request()
    one.topics.append(Fetch.Request.FetchTopic())
    assert other.topics == []
    member = ConsumerGroupDescribe.Response.Member
    assert member().assignment == ConsumerGroupDescribe.Response.Assignment()
    assert member().assignment is not member().assignment


def test_a_tagged_struct_is_none_until_it_is_set() -> None:
    assert Fetch.Response.PartitionData().current_leader is None


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        TypeError, match=r"Fetch\.Request has no field min_byte: did you mean min_b"
    ):
        Fetch.Request(min_byte=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="only transactional_id, acks, timeout_ms, topic_data"):
        Produce.Request(x=1)  # type: ignore[call-arg]


def test_fields_are_given_by_keyword_only() -> None:
    with pytest.raises(TypeError, match="keyword"):
        Produce.Request(1)  # type: ignore[misc]


def test_an_unknown_attribute_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        Produce.Request().ack = 1  # type: ignore[attr-defined]


def test_keywords_may_come_in_any_order_and_from_a_mapping() -> None:
    backwards = Produce.Request(topic_data=[], timeout_ms=3, acks=1, transactional_id="t")
    mapping = {"".join(["ac", "ks"]): 1, "timeout_ms": 3, "transactional_id": "t"}
    assert backwards == Produce.Request(**mapping)  # type: ignore[arg-type]


def test_messages_are_equal_when_class_and_fields_are() -> None:
    topic = Fetch.Request.FetchTopic
    assert Fetch.Request(topics=[topic(topic="a")]) == Fetch.Request(topics=[topic(topic="a")])
    assert Fetch.Request(topics=[topic(topic="a")]) != Fetch.Request(topics=[topic(topic="b")])
    assert Fetch.Request() != Fetch.Response()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Fetch.Request())


def test_evaluating_the_repr_of_a_message_recreates_it() -> None:
    request = Fetch.Request(max_wait_ms=5, topics=[Fetch.Request.FetchTopic(topic="a")])
    assert repr(request) == (
        "Fetch.Request(max_wait_ms=5, topics=[Fetch.Request.FetchTopic(topic='a')])"
    )
    assert eval(repr(request)) == request


def test_messages_can_be_copied_and_pickled() -> None:
    request = Fetch.Request(topics=[Fetch.Request.FetchTopic(topic="a")])
    assert pickle.loads(pickle.dumps(request)) == request
    deep = copy.deepcopy(request)
    assert deep == request
    assert deep.topics[0] is not request.topics[0]


@pytest.mark.parametrize("api", apis.ALL, ids=lambda api: api.name)
def test_every_struct_of_a_schema_is_a_class_in_its_message(api: apis.Api) -> None:
    for side, body in read_bodies(api.head).items():
        outer = getattr(api, side.title())
        assert issubclass(outer, Message)
        assert outer.__qualname__ == f"{api.name}.{side.title()}"
        for name in body.all_structs():
            assert getattr(outer, name).__qualname__ == f"{outer.__qualname__}.{name}"
            assert getattr(outer, name)() == getattr(outer, name)()


def test_an_api_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="'Fetch' has no attribute 'request'"):
        _ = Fetch.request  # type: ignore[attr-defined]


def test_apis_are_found_by_their_key() -> None:
    assert apis.by_key(1) is Fetch
    assert apis.by_key(1000) is None
    assert (Produce.min_version, Produce.advertised_min) == (3, 0)
    assert Fetch.is_flexible(12)
    assert not Fetch.is_flexible(11)
    assert repr(Fetch) == "Fetch (1) 4-18"


def test_threads_that_first_use_a_message_at_once_get_the_same_class() -> None:
    for path in sorted(apis.SCHEMAS.glob("*.api"))[:20]:
        api = apis._api(path)
        ready = threading.Barrier(4)

        def load(api: apis.Api = api, ready: threading.Barrier = ready) -> type[Message]:
            ready.wait(60)
            return api.Request

        with ThreadPoolExecutor(4) as pool:
            found = {future.result(60) for future in [pool.submit(load) for _ in range(4)]}
        assert found == {api.Request}
