from typing import Final

from cy.wire.codec import Codec
from cy.wire.messages import Message
from cy.produce.producer_batch import ProducerBatch
from cy.wire.sendfile import FileSlice

PROBE: Final[bytes]
"""The batch of the request that a template is made of."""

class ProduceTemplate:
    """The frames of Produce requests that take one batch to one partition, all alike but for the batch."""

    def __init__(self, codec: Codec, message: Message, silent: bool) -> None:
        """``message``: one of the requests, whose batch is ``PROBE``. ``silent``: they are not answered."""
    def cast(self, batch: ProducerBatch) -> Cast:
        """The request with this batch, as it is now. Raises ValueError: it is not sealed."""

class Cast:
    """A request with one batch."""

    @property
    def silent(self) -> bool:
        """It is not answered."""
    def encode(self, version: int, correlation_id: int, client_id: str | None) -> bytes | list[bytes | FileSlice]:
        """Its frame, as ``Codec.encode_request`` makes it. Raises EncodeError."""
