"""Damages the content of the coordination store: a stranger edits it, a backup or an empty store replaces it, its disk
fills up.

A stranger is a person with ZooKeeper's shell, who removes or garbles the nodes of one topic for good. A backup restores
the whole store to an earlier state. Nobody informs the brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from proofs.simulator.faults.surroundings import Surroundings
from proofs.simulator.machines.store import Node, Tree
from proofs.simulator.oracle.history import SAFE
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import ResourceType

VICTIM = "s"
"""The topic whose nodes the stranger damages. All other topics must stay intact."""
GARBAGE = b"{]"


class Stranger:
    """Chooses at random what a stranger does to the store."""

    def __init__(self, faults: Surroundings) -> None:
        self.faults = faults
        self.cluster = faults.cluster
        self.rng = faults.rng
        self._oldest: Tree | None = None
        self._backup: Tree | None = None
        self.kinds: dict[str, Callable[[], None]] = {
            "forget": self._forget,
            "garble": self._garble,
            "full store": self._fill,
            "restore": self._restore,
            "empty store": self._empty,
        }

    def end(self) -> None:
        """Ends the stranger's changes."""
        self.cluster.store.make_room()

    # One topic

    def _nodes(self) -> list[str]:
        """Returns the nodes of the victim, the deepest last."""
        topic, config = znodes.topic_path(VICTIM), znodes.config_path(ResourceType.TOPIC, VICTIM)
        tree = self.cluster.store.tree
        return sorted(path for path in tree.nodes if path in (topic, config) or path.startswith(topic + "/"))

    def _forget(self) -> None:
        """Removes some node of the topic with everything below it."""
        nodes = self._nodes()
        if nodes:
            root = self.rng.choice(nodes)
            gone = [path for path in reversed(nodes) if path == root or path.startswith(root + "/")]
            self.cluster.note(f"a stranger removes {root}")
            for path in gone:
                self.cluster.store.tree.remove(path)
            self.cluster.store.tampered([*gone, root.rpartition("/")[0]])
            self._make_again(VICTIM)

    def _make_again(self, name: str) -> None:
        """Perhaps creates a topic of the same name, as waiting producers do."""
        topic = NewTopic(name, 1, 3)
        if self.rng.random() < 0.5:
            self.cluster.note(f"{name} will be made again")
            ask = partial(self.faults.ask_controller, lambda controller: controller.create_topics([topic]))
            self.faults.later(ask, 0.2)

    def _garble(self) -> None:
        """Garbles some node of the topic, so that nobody can read it."""
        nodes = [path for path in self._nodes() if self.cluster.store.tree.nodes[path].data]
        if nodes:
            path = self.rng.choice(nodes)
            self.cluster.note(f"a stranger garbles {path}")
            node = self.cluster.store.tree.nodes[path]
            stat = node.stat._replace(version=node.stat.version + 1)
            self.cluster.store.tree.nodes[path] = Node(GARBAGE, stat)
            self.cluster.store.tampered([path])

    # All of it

    def _fill(self) -> None:
        """Makes the store refuse writes for a while."""
        self.cluster.note("the store is full")
        self.cluster.store.is_full = True
        self.faults.later(self._make_room, 0.6)

    def _make_room(self) -> None:
        self.cluster.note("the store has room again")
        self.cluster.store.make_room()

    def make_backup(self) -> None:
        """Makes a backup of the store before the topics are created."""
        self._oldest = self.cluster.store.tree.copy()

    def _restore(self) -> None:
        """The first call backs up the store. Later calls restore a backup, provided that every replica in sync in that
        backup still has all committed records.
        """
        if self._backup is None:
            self.cluster.note("a backup of the store is made")
            self._backup = self.cluster.store.tree.copy()
            return
        backup = self.rng.choice((self._backup, self._oldest or self._backup))
        if self.cluster.watcher.would_be_safe(backup):
            self._replace(backup.copy(), "the store is restored from a backup")
            self._make_again(SAFE)

    def _empty(self) -> None:
        self._replace(Tree(), "the store is empty")

    def _replace(self, tree: Tree, text: str) -> None:
        self.cluster.note(text)
        self.cluster.watcher.drift()
        self.cluster.store.put_in_place(tree)
