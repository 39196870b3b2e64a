"""The result of an operation on several items: a result or an error for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

from pyclient.errors import KafkaError

K = TypeVar("K")
R = TypeVar("R")


class Results(dict[K, R], Generic[K, R]):
    """A mapping from items to results. Access to a failed item raises its error; ``errors`` has all errors."""

    def __init__(
        self, done: Mapping[K, R] | None = None, errors: Mapping[K, KafkaError] | None = None
    ) -> None:
        super().__init__(done or {})
        self.errors: dict[K, KafkaError] = dict(errors or {})

    def __missing__(self, key: K) -> R:
        error = self.errors.get(key)
        if error is None:
            raise KeyError(key)
        raise error

    def put(self, key: K, outcome: R | KafkaError) -> None:
        """Adds the outcome of one item."""
        if isinstance(outcome, KafkaError):
            self.errors[key] = outcome
        else:
            self[key] = outcome

    def checked(self, check: bool = True) -> Results[K, R]:
        """Returns itself. If ``check`` and there are errors, raises the first one, with the others as its notes."""
        if check and self.errors:
            (key, first), *others = self.errors.items()
            notes = [f"also {other}: {error}" for other, error in others[:10]]  # of the same error perhaps
            if first.args == (first.text,):
                first.args = (f"{key}: {first.text}",)
            elif not re.search(rf"(?<!\w){re.escape(str(key))}(?!\w)", str(first)):
                first.add_note(f"of {key}")
            for note in notes:
                first.add_note(note)
            raise first
        return self
