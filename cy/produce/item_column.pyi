from typing import Any, final

from cy.produce.arrow_column import BytesColumn

@final
class ItemColumn(BytesColumn):
    """The first ``rows`` items of a tuple. They should be bytes or None."""

    def __init__(self, items: tuple[Any, ...], rows: int) -> None: ...
    def __getitem__(self, row: int) -> Any: ...
