from collections.abc import Sequence

from cy.wire.messages import Message
from cy.wire.wire_types import WireType

class Nullable(WireType):
    def __init__(self, plan: Plan) -> None: ...

class TaggedNullable(WireType):
    def __init__(self, plan: Plan) -> None: ...

class Plan(WireType):
    def __init__(
        self,
        message: type[Message],
        fields: Sequence[tuple[str, WireType]],
        tagged: Sequence[tuple[str, WireType, int]],
        forbidden: Sequence[str],
        flexible: bool,
    ) -> None: ...
    @property
    def message(self) -> type[Message]: ...
