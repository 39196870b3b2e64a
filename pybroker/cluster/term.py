"""This broker's term as controller, if there is one.

A term ends when another broker begins one; the next write to the store shows that (``nodes.recording``). It also ends
if the outcome of a write is unknown. In both cases this broker's image may be old, so it reads the whole store again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pybroker.cluster.decisions.plan import Step
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.nodes.controller_election import Leadership
from pybroker.cluster.nodes.recording import Fenced, Recorder
from pybroker.store.interface import CoordinationStore
from pyclient.protocol import errors


class Term:
    """Writes the steps of plans while this broker is the controller."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._recorder: Recorder | None = None
        self.on_fenced: Callable[[], object] = lambda: None
        """Called when a write shows that the term is over."""

    @property
    def is_on(self) -> bool:
        """True while this broker believes that it is the cluster's controller."""
        return self._recorder is not None

    @property
    def leadership(self) -> Leadership | None:
        """The epoch of the term, None if there is no term."""
        return None if self._recorder is None else self._recorder.leadership

    def begin(self, recorder: Recorder) -> None:
        """Begins the term whose first steps the recorder has written."""
        self._recorder = recorder

    def end(self) -> None:
        """Ends the term, if there is one."""
        self._recorder = None

    def break_off(self) -> None:
        """Ends the term, lets this broker read the whole store again, and lets it stand for controller again."""
        self.end()
        self.on_fenced()

    async def write(self, step: Step, image: MetadataImage) -> None:
        """Writes a step computed from ``image``. Raises Fenced, after the term has ended, and the other errors of
        ``Recorder.write``.
        """
        if self._recorder is None:
            raise errors.NotController(f"broker {self._node_id} is no longer the controller")
        try:
            await self._recorder.write(step, image)
        except Fenced:
            self.break_off()
            raise


class Beginning:
    """A term that is beginning: its steps are written, but not published on this broker yet."""

    def __init__(self, recorder: Recorder, image: MetadataImage) -> None:
        self.recorder = recorder
        self.image = image
        """The image after the steps that were written so far."""

    @classmethod
    async def open(cls, store: CoordinationStore, leadership: Leadership, image: MetadataImage) -> Beginning:
        """Prepares the first steps, which are computed from ``image``."""
        return cls(await Recorder.open(store, leadership), image)

    async def write(self, steps: Iterable[Step]) -> None:
        """Writes the steps. Raises the errors of ``Recorder.write``."""
        for step in steps:
            await self.recorder.write(step, self.image)
            if step.delta:
                self.image = self.image.apply(step.delta)
