from typing import Any, dataclass_transform

@dataclass_transform(kw_only_default=True)
class Message:
    """A message class: its fields are keyword arguments, each with the default of its schema."""

    __hash__: None  # type: ignore[assignment]

def message_class(
    name: str, defaults: dict[str, Any], attributes: dict[str, Any]
) -> type[Message]: ...
