"""Transactional producers of a log that wait for their coordinator's answer (KIP-890).

The first batch of a transaction in a partition is appended only when the coordinator has confirmed that the partition
belongs to the ongoing transaction. Otherwise a late batch could begin a transaction that never ends, and block the last
stable offset for ever. After the first batch, the open transaction in the log is the proof.

While the coordinator is asked, the log keeps a *verification* of the producer. The caller presents it with the batch,
and the log must still have the same one. The marker that ends the transaction removes the verification, so a late
answer admits no batch into the next transaction. With transactions v2, a marker with the verification's own epoch ends
the previous transaction, and does not remove the verification.

A verification also has the lowest sequence that was seen. If the coordinator could not answer, the producer sends the
batch again, and a later batch must not be appended before it.

A client can create verifications by sending batches of invented producers. So there are at most ``MAX_ENTRIES`` of
them. The oldest is dropped first; a verification that the coordinator has refused for good is dropped at once.

State of one log; time is an argument. Loop's thread only.
"""

from __future__ import annotations

from pyclient.protocol import errors

MAX_ENTRIES = 1000


class Verification:
    """One producer whose coordinator is being asked. The object's identity is the proof.

    ``bumps_epochs`` is True for transactions v2.
    """

    __slots__ = ("bumps_epochs", "epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, *, bumps_epochs: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.bumps_epochs = bumps_epochs
        self.started_ms = now_ms


class Verifications:
    """The verifications of one log, by producer id, oldest first."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def start(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epochs: bool, now_ms: int
    ) -> Verification:
        """Returns the verification for a batch that begins with ``sequence``; a newer epoch gets a new verification."""
        found = self._entries.get(producer_id)
        if found is not None and epoch <= found.epoch:
            if epoch == found.epoch:
                found.lowest_sequence = min(found.lowest_sequence, sequence)
            return found
        self._entries.pop(producer_id, None)
        if len(self._entries) >= MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        made = Verification(epoch, sequence, bumps_epochs=bumps_epochs, now_ms=now_ms)
        self._entries[producer_id] = made
        return made

    def stands(self, producer_id: int, verification: Verification | None) -> bool:
        """Returns True while ``verification`` is the current one of the producer."""
        return verification is not None and self._entries.get(producer_id) is verification

    def check_sequence(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Raises OutOfOrderSequenceNumber if a batch with a lower sequence must be appended first."""
        found = self._entries.get(producer_id)
        if found is not None and epoch == found.epoch and sequence > found.lowest_sequence:
            raise errors.OutOfOrderSequenceNumber(
                f"producer {producer_id}: sequence {found.lowest_sequence} must come before sequence {sequence}"
            )

    def refuse(self, producer_id: int, epoch: int, verification: Verification) -> None:
        """Removes the verification, because the coordinator has refused for good.

        A zombie may have been given the verification of a newer epoch. If the zombie is refused, that one stays.
        """
        if epoch == verification.epoch and self.stands(producer_id, verification):
            del self._entries[producer_id]

    def on_data(self, producer_id: int) -> None:
        """Removes the verification after an append: from now on the open transaction is the proof."""
        self._entries.pop(producer_id, None)

    def on_marker(self, producer_id: int, epoch: int) -> None:
        """Removes the verification when its transaction has ended, but not when the previous one has."""
        found = self._entries.get(producer_id)
        if found is not None and not (found.bumps_epochs and found.epoch == epoch):
            del self._entries[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Removes verifications that have not been used for ``expiration_ms``."""
        kept = {id: each for id, each in self._entries.items() if now_ms - each.started_ms < expiration_ms}
        if len(kept) < len(self._entries):
            self._entries = kept

    def clear(self) -> None:
        """Removes all verifications."""
        self._entries.clear()
