from typing import Final

from cy.wire.codec import Codec
from cy.wire.messages import Message
from cy.produce.producer_batch import ProducerBatch
from cy.wire.sendfile import FileSlice

PROBE: Final[bytes]
"""The batch of the request from which a template is made."""

class ProduceTemplate:
    """Makes the frames of Produce requests with one batch for one partition. They differ only in the batch."""

    def __init__(self, codec: Codec, message: Message, silent: bool) -> None:
        """``message`` is one of the requests, with the batch ``PROBE``. ``silent`` requests get no response."""
    def cast(self, batch: ProducerBatch) -> Cast:
        """Returns the request with the current bytes of this batch. Raises ValueError if it is not sealed."""

class Cast:
    """A request with one batch."""

    @property
    def silent(self) -> bool:
        """True if the request gets no response."""
    def encode(self, version: int, correlation_id: int, client_id: str | None) -> bytes | list[bytes | FileSlice]:
        """Returns the request's frame, as ``Codec.encode_request`` does. Raises EncodeError."""
