"""Paths and contents of the nodes in which the cluster is kept: those of ZooKeeper-era Kafka.

    /cluster/id                             {"version": "1", "id": …}
    /controller                (ephemeral)  which broker is the controller
    /controller_epoch                       its epoch, in decimal; each write is conditional on it
    /brokers/ids/1             (ephemeral)  endpoints and rack of a live broker
    /brokers/topics/t                       topic id, replicas of each partition
    /brokers/topics/t/partitions/0/state    leader, leader epoch, ISR; its version: partition epoch
    /config/topics/t, /config/brokers/1, /config/brokers/<default>
    /config/groups/g                        a group's configuration; its name is ``quoted``
    /config/users/u                         a user's passwords and quotas; u is URL-encoded, "<default>" is all
    /config/users/u/clients/c               the quotas of a user's clients with one id; c is URL-encoded
    /config/clients/c, /config/ips/i        the quotas of a client id, of an address
    /kafka-acl/Topic/t                      the ACLs of a resource; ``*`` is all resources
    /kafka-acl-extended/prefixed/Topic/t    the ACLs of resources whose names begin with t
    /admin/delete_topics/<topic id>         the name of a deleted topic, while logs or nodes of it may remain
    /admin/delete_topics/<topic id>/nodes   exists until all nodes of the deleted topic are removed
    /latest_producer_id_block               the last assigned block of producer ids
    /pybroker/journal/0000000007            the changes in version 7 of the metadata (``journal``)
    /pybroker/known                         the controller, and the live brokers that it has taken into account
    /pybroker/unfit/1          (ephemeral)  what a live broker cannot do: it is stopping, or has lost a disk
    /consumers/g/ids/m         (ephemeral)  what a member of a group reads; the group folder is ``quoted``
    /feature                                finalized features; its version: their epoch
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from pybroker.cluster.metadata import offline_replicas
from pybroker.cluster.metadata.image import (
    BrokerRegistration,
    Configs,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.config import Endpoint
from pyclient.protocol.uuids import from_base64, to_base64

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
DELETED_TOPICS: Final = "/admin/delete_topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
CONSUMERS: Final = "/consumers"
DEFAULT_ENTITY: Final = "<default>"
CLIENTS: Final = "clients"
"""The folder of a user's clients, below the user's node."""
OWN: Final = "/pybroker"
JOURNAL: Final = f"{OWN}/journal"
KNOWN: Final = f"{OWN}/known"
UNFIT: Final = f"{OWN}/unfit"

CONFIG_FOLDERS: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "/config/topics",
    ResourceType.BROKER: "/config/brokers",
    ResourceType.GROUP: "/config/groups",
    ResourceType.USER: "/config/users",
    ResourceType.CLIENT: "/config/clients",
    ResourceType.USER_CLIENT: "/config/users",
    ResourceType.IP: "/config/ips",
}
FOLDERS: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    *dict.fromkeys(CONFIG_FOLDERS.values()),
    CONSUMERS,
    "/admin",
    DELETED_TOPICS,
    OWN,
    JOURNAL,
    KNOWN,
    UNFIT,
)

_SAFE: Final = " !#$&'()*+,:;=?@[]"
_compact = json.JSONEncoder(separators=(",", ":")).encode


def broker_path(node_id: int) -> str:
    """Returns the node of a live broker's registration."""
    return f"{BROKER_IDS}/{node_id}"


def topic_path(name: str) -> str:
    """Returns the node of a topic's replicas."""
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    """Returns the folder of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def state_path(name: str, index: int) -> str:
    """Returns the node of a partition's leader and ISR."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def deleted_path(topic_id: bytes) -> str:
    """Returns the note of a deleted topic, which exists until the topic's nodes and logs are gone."""
    return f"{DELETED_TOPICS}/{to_base64(topic_id)}"


def remains_path(topic_id: bytes) -> str:
    """Returns the node below a note; it exists, and so keeps the note, until the topic's nodes are gone."""
    return f"{deleted_path(topic_id)}/nodes"


def config_path(resource_type: ResourceType, name: str) -> str:
    """Returns the node of a resource's configuration; an empty name is the default. A group's name is ``quoted``."""
    entity = _QUOTED.get(resource_type, str)(name)
    return f"{CONFIG_FOLDERS[resource_type]}/{entity or DEFAULT_ENTITY}"


def config_name(resource_type: ResourceType, entity: str) -> str:
    """Returns the resource to which a configuration's node belongs, by the node's name. Raises ValueError if there is
    none.
    """
    if resource_type is ResourceType.USER_CLIENT:
        user_and_client(entity)
        return entity
    name = "" if entity == DEFAULT_ENTITY else entity
    if resource_type in _QUOTED:
        name = unquote(name, errors="strict")
    if not config_path(resource_type, name).endswith(f"/{entity}"):
        raise ValueError(f"{entity} is not the name of a {resource_type.name.lower()}")
    return name


def journal_path(version: int) -> str:
    """Returns the journal entry of that version of the metadata."""
    return f"{JOURNAL}/{version:010d}"


def unfit_path(node_id: int) -> str:
    """Returns the node in which a live broker reports the work that it cannot do."""
    return f"{UNFIT}/{node_id}"


def quoted(name: str) -> str:
    """Returns a group's or member's name as part of a path: a character that ZooKeeper does not allow becomes ``%2F``.
    """
    text = quote(name, safe=_SAFE)
    return text.replace(".", "%2E") if text in (".", "..") else text


def sanitized(name: str) -> str:
    """Returns a user's name or a client id as part of a path, like Kafka's Sanitizer."""
    text = quote(name, safe="").replace("~", "%7E")
    return text.replace(".", "%2E") if text in (".", "..") else text


_QUOTED: Final[Mapping[ResourceType, Callable[[str], str]]] = {
    ResourceType.GROUP: quoted,
    ResourceType.USER: sanitized,
    ResourceType.CLIENT: sanitized,
}


def clients_name(user: str) -> str:
    """Returns the name, as a USER_CLIENT, of the folder of a user's clients; an empty user is the default."""
    return f"{sanitized(user) or DEFAULT_ENTITY}/{CLIENTS}"


def user_client_name(user: str, client: str) -> str:
    """Returns the name of a USER_CLIENT; empty names are defaults."""
    return f"{clients_name(user)}/{sanitized(client) or DEFAULT_ENTITY}"


def user_and_client(name: str) -> tuple[str, str] | None:
    """Returns the user and the client id of a USER_CLIENT; None for the folder above. Raises ValueError."""
    user, _, client = name.partition(f"/{CLIENTS}/")
    if not client:
        return None
    return config_name(ResourceType.USER, user), config_name(ResourceType.CLIENT, client)


def members_path(group_id: str) -> str:
    """Returns the folder of a group's members."""
    return f"{CONSUMERS}/{quoted(group_id)}/ids"


def encode_member(topics: Iterable[str], regex: str, now_ms: int) -> bytes:
    """Encodes /consumers/<group>/ids/<member>: topics, or a regular expression."""
    subscription = dict.fromkeys([regex] if regex else sorted(topics), 1)
    pattern = "white_list" if regex else "static"
    row = {"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": str(now_ms)}
    return _compact(row).encode()


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encodes /cluster/id."""
    return _compact({"version": "1", "id": cluster_id}).encode()


def decode_cluster_id(data: bytes) -> str:
    """Decodes /cluster/id."""
    return str(json.loads(data)["id"])


def encode_controller(node_id: int, now_ms: int) -> bytes:
    """Encodes /controller."""
    fields = {"version": 1, "brokerid": node_id, "timestamp": str(now_ms)}
    return _compact(fields).encode()


def decode_controller(data: bytes) -> int:
    """Decodes /controller: the controller's id."""
    return int(json.loads(data)["brokerid"])


def encode_broker(broker: BrokerRegistration, now_ms: int, process: str = "") -> bytes:
    """Encodes /brokers/ids/N. Host and port are those of the first plain-text listener, for old readers; ``process``
    identifies the registered process.
    """
    plain = [e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"]
    fields = {
        "version": 5,
        "host": plain[0].host if plain else None,
        "port": plain[0].port if plain else -1,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [str(endpoint) for endpoint in broker.endpoints],
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints
        },
        "features": {name: {"min_version": low, "max_version": high} for name, low, high in broker.features},
        "log_dirs": list(broker.log_dirs),
        "clean": broker.is_clean,
        "boot": broker.boot,
        "min_isr": broker.min_isr,
        "machine": broker.machine,
        "process": process,
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    return _compact(fields).encode()


def decode_broker(node_id: int, data: bytes, epoch: int) -> BrokerRegistration:
    """Decodes /brokers/ids/N; ``epoch`` is the number of the node's creation."""
    fields = json.loads(data)
    protocols = fields["listener_security_protocol_map"]
    return BrokerRegistration(
        node_id,
        epoch,
        tuple(_endpoint(text, protocols) for text in fields["endpoints"]),
        fields.get("rack"),
        tuple(fields.get("log_dirs", ())),
        fields.get("clean", False),
        fields.get("boot", ""),
        min_isr=fields.get("min_isr", 1),
        machine=fields.get("machine", ""),
        features=tuple(
            (name, levels["min_version"], levels["max_version"]) for name, levels in fields.get("features", {}).items()
        ),
    )


def process_of(data: bytes) -> str:
    """Returns the process in a readable /brokers/ids/N, "" if there is none."""
    process = json.loads(data).get("process", "")
    return process if isinstance(process, str) else ""


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, protocols[listener], host.strip("[]"), int(port))


class Assignment(NamedTuple):
    """The replicas of a partition, and those that a reassignment adds and removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def encode_topic(topic: TopicImage) -> bytes:
    """Encodes /brokers/topics/T: the replicas of each partition."""
    partitions = topic.partitions
    fields = {
        "partitions": {str(p.index): p.replicas for p in partitions},
        "topic_id": to_base64(topic.id),
        "adding_replicas": {str(p.index): p.adding for p in partitions if p.adding},
        "removing_replicas": {str(p.index): p.removing for p in partitions if p.removing},
        "version": 3,
    }
    return _compact(fields).encode()


def decode_topic(data: bytes) -> tuple[bytes, dict[int, Assignment]]:
    """Decodes /brokers/topics/T: the topic's id and the replicas of each partition."""
    fields = json.loads(data)
    adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
    partitions = {
        int(index): Assignment(
            tuple(replicas), tuple(adding.get(index, ())), tuple(removing.get(index, ()))
        )
        for index, replicas in fields["partitions"].items()
    }
    return from_base64(fields["topic_id"]), partitions


def encode_state(partition: PartitionImage, controller_epoch: int) -> bytes:
    """Encodes /brokers/topics/T/partitions/P/state."""
    return _encoded_state(
        controller_epoch, partition.leader, partition.leader_epoch, partition.isr, partition.elr
    )


@lru_cache(maxsize=1024)
def _encoded_state(
    controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> bytes:
    """Encodes a state. The result is cached, because the partitions of a new topic have few different states."""
    fields = {
        "controller_epoch": controller_epoch,
        "leader": leader,
        "version": 1,
        "leader_epoch": leader_epoch,
        "isr": isr,
    }
    if elr:
        fields["elr"] = elr
    return _compact(fields).encode()


def decode_state(index: int, data: bytes, version: int, assigned: Assignment) -> PartitionImage:
    """Decodes /brokers/topics/T/partitions/P/state; ``version`` is the node's."""
    fields = json.loads(data)
    return PartitionImage(
        index,
        fields["leader"],
        fields["leader_epoch"],
        version,
        assigned.replicas,
        tuple(fields["isr"]),
        elr=tuple(fields.get("elr", ())),
        adding=assigned.adding,
        removing=assigned.removing,
    )


class Left(NamedTuple):
    """A deleted topic; ``brokers`` may still have logs of it (None: any broker)."""

    name: str
    brokers: tuple[int, ...] | None


def left_of(topic: TopicImage) -> Left:
    """Returns the note for a ``topic`` that has just been deleted."""
    brokers = {broker for partition in topic.partitions for broker in partition.replicas}
    return Left(topic.name, tuple(sorted(brokers)))


def encode_left(left: Left) -> bytes:
    """Encodes /admin/delete_topics/T."""
    return _compact({"topic": left.name, "brokers": left.brokers}).encode()


def decode_left(data: bytes) -> Left:
    """Decodes /admin/delete_topics/T. Old versions, whose clusters had one broker, wrote only the name."""
    if not data:
        raise ValueError("the deletion note is empty, as Kafka's tools create it")
    if not data.startswith(b"{"):
        return Left(data.decode(), None)
    fields = json.loads(data)
    return Left(fields["topic"], tuple(fields["brokers"]))


def encode_unfit(*, is_leaving: bool, offline: frozenset[tuple[bytes, int]]) -> bytes:
    """Encodes /pybroker/unfit/N: whether the broker stops, and the replicas whose disk it has lost."""
    rows = offline_replicas.rows((to_base64(topic_id), index) for topic_id, index in offline)
    return _compact({"leaving": is_leaving, "offline": rows}).encode()


def decode_unfit(data: bytes) -> tuple[bool, frozenset[tuple[bytes, int]]]:
    """Decodes /pybroker/unfit/N."""
    fields = json.loads(data)
    replicas = offline_replicas.replicas(fields["offline"])
    return fields["leaving"], frozenset((from_base64(topic_id), index) for topic_id, index in replicas)


def encode_configs(configs: Configs) -> bytes:
    """Encodes /config/…: a resource's configuration."""
    return _compact({"version": 1, "config": dict(configs)}).encode()


def decode_configs(data: bytes) -> dict[str, str]:
    """Decodes /config/…: a resource's configuration."""
    return dict(json.loads(data)["config"])


def encode_producer_id_block(node_id: int, first: int, last: int) -> bytes:
    """Encodes /latest_producer_id_block."""
    fields: dict[str, Any] = {
        "version": 1,
        "broker": node_id,
        "block_start": str(first),
        "block_end": str(last),
    }
    return _compact(fields).encode()


def decode_producer_id_block(data: bytes) -> int:
    """Decodes /latest_producer_id_block: the last id of the last block."""
    return int(json.loads(data)["block_end"])


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Encodes /feature."""
    return _compact({"version": 2, "status": 1, "features": dict(levels)}).encode()


def decode_features(data: bytes) -> dict[str, int]:
    """Decodes /feature: the finalized levels."""
    return {name: int(level) for name, level in json.loads(data)["features"].items()}
