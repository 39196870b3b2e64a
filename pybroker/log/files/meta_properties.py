"""``meta.properties``: the cluster and node that a log dir belongs to, and the dir's own id (KIP-858).

Format (Java properties): ``version=1``, ``cluster.id``, ``node.id``, ``directory.id`` (url-safe
base64 of a random UUID). A dir of another cluster or node is refused, because its logs belong to other topics.
"""

from __future__ import annotations

import base64
import os
import uuid
from dataclasses import dataclass, replace

from pybroker.log.files.storage import Storage

FILE_NAME = "meta.properties"


class WrongOwner(ValueError):
    """Raised if the log dir belongs to another cluster or node. The message tells the operator what to do."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of a log dir's ``meta.properties``."""

    cluster_id: str
    node_id: int
    directory_id: str

    def encode(self) -> bytes:
        """Returns the file's content."""
        lines = [
            "#",
            f"cluster.id={self.cluster_id}",
            f"directory.id={self.directory_id}",
            f"node.id={self.node_id}",
            "version=1",
        ]
        return ("\n".join(lines) + "\n").encode()


NEW = MetaProperties("", -1, "")
"""The properties of an unused folder."""


def decode(data: bytes) -> MetaProperties:
    """Parses the file. Raises ValueError."""
    lines = [line.strip() for line in data.decode("utf-8").splitlines()]
    fields = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    node_id = fields.get("node.id", fields.get("broker.id", "-1"))
    return MetaProperties(fields.get("cluster.id", ""), int(node_id), fields.get("directory.id", ""))


def random_directory_id() -> str:
    """Returns a new id of 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def read(storage: Storage, log_dir: str) -> MetaProperties | None:
    """Returns the properties of a log dir, None if it is new. Raises ValueError if they are malformed."""
    try:
        return decode(storage.read(os.path.join(log_dir, FILE_NAME)))
    except FileNotFoundError:
        return None


def claim(storage: Storage, log_dir: str, cluster_id: str, node_id: int) -> MetaProperties:
    """Checks that the log dir belongs to this node; writes ``meta.properties`` into a new one.

    Raises WrongOwner if it belongs to another cluster or node, OSError if it cannot be read or written.
    """
    path = os.path.join(log_dir, FILE_NAME)
    found = read(storage, log_dir) or MetaProperties(cluster_id, node_id, "")
    if found.cluster_id != cluster_id:
        raise WrongOwner(
            f"data folder {log_dir} belongs to cluster {found.cluster_id}, this is {cluster_id}: "
            f"choose another --data-dir, or remove {path} if it is yours to lose"
        )
    if found.node_id != node_id:
        raise WrongOwner(
            f"data folder {log_dir} belongs to node {found.node_id}, this is {node_id}: "
            f"choose another --data-dir, or start with --node-id {found.node_id}"
        )
    if not found.directory_id:
        found = replace(found, directory_id=random_directory_id())
        storage.replace(path, found.encode())
    return found
