"""Computes the delta from a broker's image to a newer one, which was read from the store or follows from the journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.cluster.metadata.image import (
    NO_CONFIGS,
    MetadataDelta,
    MetadataImage,
    TopicImage,
    changed_acls,
    changed_tokens,
)
from pybroker.cluster.nodes.loading import Deleted
from pyclient.protocol.uuids import to_base64


def catching_up(old: MetadataImage, image: MetadataImage, node_id: int, noted: Sequence[Deleted]) -> MetadataDelta:
    """Returns the delta from ``old`` to ``image`` for that broker.

    It deletes only the ``noted`` topics. These may be topics that ``old`` lacks, but of which this broker may have
    logs. The notes were read after ``image``: if the image still has a noted topic, a later journal entry deletes it.
    If ``image`` lacks a topic without a note, the topic is missing: no decision has deleted it.
    """
    image = image.with_configs_of(old)
    noted = [topic for topic in noted if topic.id not in image.names]
    here = {to_base64(topic.id): topic.image() for topic in noted if topic.may_be_on(node_id)}
    gone = {name: topic for name, topic in old.topics.items() if _lacks(image, topic)}
    ids = {topic.id for topic in noted}
    return MetadataDelta(
        changed={name: topic for name, topic in image.topics.items() if old.topics.get(name) != topic},
        deleted=here | {name: topic for name, topic in gone.items() if topic.id in ids},
        brokers={**dict.fromkeys(old.brokers), **image.brokers},
        configs={**dict.fromkeys(old.resource_configs, NO_CONFIGS), **image.resource_configs},
        controller=(image.controller_id, image.controller_epoch),
        features=(image.features_epoch, image.features),
        version=image.version,
        boots=image.boots,
        missing={name: topic for name, topic in gone.items() if topic.id not in ids},
        reading=image.reading if image.reading is not old.reading else None,
        acls=changed_acls(old, image),
        tokens=changed_tokens(old, image),
    )


def _lacks(image: MetadataImage, topic: TopicImage) -> bool:
    """Returns whether ``image``, which was read from the store, lacks the topic."""
    found = image.topics.get(topic.name)
    return topic.name not in image.unreadable if found is None else found.id != topic.id
