"""How DescribeConfigs shows a setting: its value, its source, and its synonyms.

The synonyms of a topic's ``retention.ms`` are the broker's ``log.retention.ms``, ``.minutes`` and ``.hours``, each with
the layers that set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pybroker.config.broker_config import BrokerConfig, Origin, Source
from pybroker.config.group_config import GROUPS, group_config
from pybroker.config.keys.key import Synonym, format_value
from pybroker.config.topic_config import TOPICS, parse_topic_overrides, topic_default


class Described(NamedTuple):
    """An effective value as text, its source, and every layer's value, the strongest first."""

    text: str | None
    source: Source
    synonyms: list[Origin]


def describe_topic_key(
    config: BrokerConfig, name: str, overrides: Mapping[str, str]
) -> Described:
    """Describes a key of a topic with these overrides."""
    key = TOPICS[name]
    behind = _behind(config, key.synonyms)
    if name in overrides:
        text = format_value(parse_topic_overrides({name: overrides[name]})[name])
        own = Origin(name, text, Source.DYNAMIC_TOPIC)
        return Described(text, own.source, [own, *behind])
    text = format_value(topic_default(config, key))
    if not behind:
        return Described(text, Source.DEFAULT, [])
    return Described(text, behind[0].source, behind)


def describe_group_key(
    config: BrokerConfig, name: str, overrides: Mapping[str, str]
) -> Described:
    """Describes a key of a group with these overrides."""
    text = format_value(group_config(config, overrides, name))
    behind = _behind(config, GROUPS[name].synonyms)
    if name in overrides:
        own = Origin(name, text, Source.DYNAMIC_GROUP)
        return Described(text, own.source, [own, *behind])
    behind = behind or [Origin(name, text, Source.DEFAULT)]
    return Described(text, behind[0].source, behind)


def describe_broker_key(config: BrokerConfig, name: str) -> Described:
    """Describes a key of this broker."""
    synonyms = _behind(config, _CHAINS.get(name, (Synonym(name),)))
    own = config.origins(name)[0]
    return Described(own.text, own.source, synonyms)


def _behind(config: BrokerConfig, synonyms: Iterable[Synonym]) -> list[Origin]:
    return [
        origin
        for synonym in synonyms
        for origin in config.origins(synonym.name)
        if origin.text is not None
    ]


# # a broker key → itself and the keys that replace it if it is unset
_CHAINS: Final[Mapping[str, tuple[Synonym, ...]]] = {
    key.synonyms[position].name: key.synonyms[position:]
    for key in TOPICS.values()
    for position in range(len(key.synonyms))
}
