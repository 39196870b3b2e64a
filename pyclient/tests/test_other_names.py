"""What a user of another client is told."""

from __future__ import annotations

import pytest

import pyclient
from pyclient import aio
from pyclient.other_names import OF_ADMIN, OF_CONSUMER, OF_MODULE, OF_PRODUCER, OtherName, knows


@knows(OF_PRODUCER)
class Mine:
    """Has a method of its own, and those of other clients as hints."""

    def send(self) -> str:
        return "mine"


FACES = [
    *((kind, OF_PRODUCER) for kind in (pyclient.Producer, aio.Producer)),
    *((kind, OF_CONSUMER) for kind in (pyclient.Consumer, aio.Consumer)),
    *((kind, OF_ADMIN) for kind in (pyclient.Admin, aio.Admin)),
]


@pytest.mark.parametrize(("kind", "others"), FACES)
def test_method_of_another_client_is_answered_with_its_name_here(kind, others) -> None:
    for name, here in others.items():
        other = getattr(kind, name)
        if not isinstance(other, OtherName):
            continue  # aio.Consumer.getone is there
        with pytest.raises(AttributeError) as caught:
            other.__get__(object(), kind)
        assert f"{kind.__name__!r} object has no attribute {name!r}: here it is {here}" in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind, _ in FACES])
def test_completion_does_not_offer_the_names_of_others(kind) -> None:
    assert kind.__dir__ is Mine.__dir__
    assert "send" in dir(Mine())
    assert "produce" not in dir(Mine())
    assert not hasattr(Mine(), "produce")


def test_names_of_the_asyncio_face_come_first() -> None:
    assert callable(aio.Consumer.getone)


def test_class_may_take_over_the_name_of_another_client() -> None:
    class Theirs(Mine):
        produce = Mine.send

    assert Theirs().produce() == "mine"


@pytest.mark.parametrize(("name", "here"), OF_MODULE.items())
def test_class_of_another_client_is_answered_with_its_name_here(name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': here it is {here}"):
        getattr(pyclient, name)
