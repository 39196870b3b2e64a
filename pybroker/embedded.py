"""A broker for tests and notebooks: ``with pybroker.run() as broker: broker.bootstrap_servers``.

The broker is a separate process. It ends with the block, with ``close()``, when the object is no longer referenced, and
when this process ends, even by a signal. To notice the last, the broker watches a pipe and this process. It removes its
temporary data folder.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pybroker.acl import Acl, check_known, texts
from pybroker.client_settings import protocol, settings_for
from pybroker.passwords import passwords
from pybroker.process.limits import MOST_PROCESSES
from pybroker.process.owned_process import OwnedProcess
from pybroker.process.secret_settings import ADD_SCRAM, as_arguments, as_environment
from pyclient.keywords import key_with_dots
from pyclient.other_names import knows

if TYPE_CHECKING:  # so that a broker without TLS does not import it
    from pybroker.security.tls.certificates import Files

READY = re.compile(r"pybroker ready: bootstrap=(\S+) pids=(\S+)")
OTHERS = ("KAFKA_", "CLUSTER_ID", ADD_SCRAM)
"""Environment variables that configure other brokers, not this one."""
TLS_FOLDER = "tls"
"""The folder of the certificates, inside the data folder."""
CHOSEN = {
    *("listeners", "listener.security.protocol.map", "controller.listener.names"),
    *("security.inter.broker.protocol", "inter.broker.listener.name", "sasl.enabled.mechanisms"),
    *("ssl.keystore.location", "ssl.truststore.location"),
}
OWN_CERTIFICATES = "your own are listeners='SSL://localhost:0', ssl_keystore_type='PEM', ssl_keystore_location='…'"
CLIENT_AUTH = "ssl.client.auth"
OF_SASL_SSL = "listener.name.sasl_ssl."
"""The prefix of the keys of the listener that a broker with both ``tls`` and ``sasl`` has."""
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
"""The setting that makes the broker check ACLs."""
_BY_ADMIN = "Admin(broker.bootstrap_servers).create_topics(…)"
FOREIGN = {
    **dict.fromkeys(("brokers", "nodes", "num_brokers", "count"), "processes=3"),
    **dict.fromkeys(("host", "bind"), "listeners='PLAINTEXT://localhost:0'"),
    **dict.fromkeys(("topics", "topic"), _BY_ADMIN),
    **dict.fromkeys(("dir", "path", "tmp_path", "data_folder"), "data_dir='…'"),
}
"""Arguments of other libraries, each with the argument of ``run`` that does the same."""
OTHER_NAMES = {
    **dict.fromkeys(("port", "host", "url", "address", "bootstrap_server"), "bootstrap_servers, host:port"),
    **dict.fromkeys(("get_bootstrap_server", "get_bootstrap_servers"), "bootstrap_servers, which needs no ()"),
    **dict.fromkeys(("stop", "shutdown", "terminate"), "close(), or a with block"),
    **dict.fromkeys(("create_topic", "create_topics"), _BY_ADMIN),
    "logs": "log",
}
"""Methods and attributes of other libraries' brokers, each with the one here that does the same."""
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""Settings with other defaults than Kafka's: a test should not wait for members that will never join a group."""
REASON = re.compile(r"^pybroker: ", re.MULTILINE)
"""Matches the beginning of the line that says why a broker ends."""
ARGUMENTS = {"--port 0": "port=0", "--port": "port=", "--data-dir": "data_dir="}
"""Options that may appear in such a line, each with the argument of ``run`` that does the same."""


T = TypeVar("T")


class BrokerFailed(RuntimeError):
    """Raised if a broker did not start, or did not do what was requested; the text says why.

    log: everything that the broker has logged.
    """

    def __init__(self, text: str, log: str = "") -> None:
        super().__init__(text)
        self.log = log


@knows(OTHER_NAMES, page="docs/testing.md")
class EmbeddedBroker:
    """One or several brokers that this process owns; ``pybroker.run()`` returns it already running.

    If you create it yourself, with the arguments of ``run``, it runs from ``start()`` to ``close()``, or within
    ``with`` or ``async with``. The latter starts and stops it without blocking the event loop. After ``close()`` it
    can be started again. In a notebook: ``broker = pybroker.run()`` in one cell, ``broker.close()`` in the last.

    data_dir: the data folder.
    """

    def __init__(
        self,
        processes: int = 1,
        *,
        port: int = 0,
        data_dir: str | Path | None = None,
        log_level: str = "info",
        start_timeout_s: float = 60.0,
        tls: bool = False,
        sasl: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[Acl] | None = None,
        **config: object,
    ) -> None:
        """Takes the arguments of ``run``, but does not start the broker yet."""
        _check_keys(config)
        settings = dict(setting(key, value) for key, value in config.items())
        _check_types(processes=(processes, int), port=(port, int), start_timeout_s=(start_timeout_s, (int, float)))
        if not 1 <= processes <= MOST_PROCESSES:
            raise ValueError(
                f"processes={processes} is the number of brokers, 1 to {MOST_PROCESSES}; a port is port={processes}"
            )
        if not isinstance(tls, bool):
            raise TypeError(f"tls={tls!r}: True makes certificates; {OWN_CERTIFICATES}")
        self._is_secured = tls
        self._passwords = passwords(sasl, users)
        secured = self._secured()
        if secured and (both := sorted(CHOSEN & settings.keys())):
            raise ValueError(f"tls and sasl already set {', '.join(both)}: give only one of the two")
        self._client_auth = settings.get(CLIENT_AUTH, "none")
        if tls and self._passwords is not None and CLIENT_AUTH in settings:  # this listener ignores the general key
            settings[OF_SASL_SSL + CLIENT_AUTH] = settings.pop(CLIENT_AUTH)
        self.data_dir = Path("" if data_dir is None else data_dir)
        self._temporary = data_dir is None
        self._processes = processes
        self._port = port
        self._log_level = log_level
        self._timeout_s = start_timeout_s
        rights = list(acls or ())
        self._acls = [text for acl in rights for text in texts(acl)]
        if self._passwords is None and not settings.keys() & {*CHOSEN, CLIENT_AUTH}:
            check_known(rights, settings.get("super.users", ""))
        self._settings = {**DEFAULTS, **({} if acls is None else AUTHORIZER), **secured, **settings}
        self._bootstrap = ""
        self._pids: tuple[int, ...] = ()
        self._orders = 0
        self._lock = threading.RLock()
        self._process = OwnedProcess()
        weakref.finalize(self, self._process.forget)

    def __repr__(self) -> str:
        state = "running" if self._process.is_alive else "not running"
        return f"<pybroker.EmbeddedBroker {self._bootstrap or 'not started'}, {state}>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, ``host:port``, comma-separated. Raises RuntimeError before the first start."""
        return self._known(self._bootstrap)

    @property
    def pid(self) -> int:
        """The process id of the broker, or of the supervisor if there are several brokers. Raises RuntimeError before
        the first start.
        """
        return self._known(self._process.pid or 0)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the brokers, in the order of the node ids. A broker that does not run has its last process
        id there.

        Raises RuntimeError before the first start.
        """
        if self._processes > 1 and self._process.is_alive:
            self._pids = self._ask("pids", None)
        return self._known(self._pids)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The node ids of the brokers: 1, 2, … unless ``node_id`` sets the first one."""
        first = int(self._settings.get("node.id", self._settings.get("broker.id", "1")))
        return tuple(range(first, first + self._processes))

    @property
    def log(self) -> str:
        """Everything that the broker has logged so far, over all its starts. You can still read it after the broker has
        ended.
        """
        return self._process.log

    def client_settings(self, user: str | None = None, *, library: str = "pyclient") -> dict[str, Any]:
        """Returns the settings with which a client reaches the broker: ``Producer(**broker.client_settings("alice"))``.

        ``user`` is one of ``users``; it is required if there are several. ``library`` is ``pyclient``,
        ``confluent-kafka``, ``kafka-python``, ``aiokafka`` or ``java``. If ``ssl.client.auth`` requires a client
        certificate, the settings name one. Raises ValueError for another user or library, and RuntimeError before the
        first start.
        """
        bootstrap, authority, own = self.bootstrap_servers, None, None
        if self._is_secured:
            files = self._certificates()
            authority = files.authority
            own = None if self._client_auth == "none" else files.client
        login = None if self._passwords is None else self._passwords.login(user)
        return settings_for(library, bootstrap, authority, own, login)

    def start(self) -> Self:
        """Starts the broker unless it runs already, and returns this object when the broker is ready. Raises
        BrokerFailed.
        """
        with self._lock:
            if not self._process.is_alive:
                if self._temporary:
                    self.data_dir = self._process.make_folder("pybroker-")
                self._start(self._port, *(() if self._passwords is None else ("--set-scram",)))
        return self

    def close(self) -> None:
        """Stops the broker cleanly and removes its data folder if that is temporary. ``log`` can still be read."""
        with self._lock:
            self._process.close()

    def kill(self, node_id: int | None = None) -> None:
        """Kills the broker like ``kill -9``. With several brokers it kills ``node_id``, or all if that is None.

        The broker stays down until ``restart()``; its data are kept. Raises ValueError for an unknown id, and
        RuntimeError if nothing runs.
        """
        with self._lock:
            if self._processes > 1:
                self._ask("kill", node_id)
            else:
                self._only(node_id)
                self._process.kill()

    def restart(self, node_id: int | None = None) -> None:
        """Stops the broker cleanly if it runs, and starts it with the same port and data. With several brokers it
        restarts ``node_id``, or all. If ``listeners`` names several, each gets the port that it names.

        Returns when the broker is ready. Raises BrokerFailed, and ValueError for an unknown id.
        """
        with self._lock:
            self._known(self._bootstrap)
            if self._processes > 1 and self._process.is_alive:
                self._ask("restart", node_id)
                return
            self._check(node_id)
            self._process.stop()
            is_one = self._processes == 1 and "," not in self._settings.get("listeners", "")
            self._start(int(self._bootstrap.rpartition(":")[2]) if is_one else self._port)

    def pause(self, node_id: int | None = None) -> None:
        """Halts the broker (SIGSTOP): its connections stay open, but it answers nothing. With several brokers it halts
        ``node_id``, or all.

        If the thread that started a single broker ends, the broker continues without ``resume``. Raises ValueError for
        an unknown id, and RuntimeError if nothing runs.
        """
        self._halt("pause", signal.SIGSTOP, node_id)

    def resume(self, node_id: int | None = None) -> None:
        """Resumes a broker halted by ``pause``. Raises ValueError and RuntimeError like ``pause``."""
        self._halt("resume", signal.SIGCONT, node_id)

    def abandon(self) -> None:
        """Kills the broker and removes its temporary folder, for a signal handler that then ends this process."""
        self._process.abandon()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio  # the import takes 40 ms, which other tests save

        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def _start(self, port: int, *options: str) -> None:
        try:
            if self._is_secured:
                self._make_certificates()
            secrets = as_environment(self._settings)
            if self._passwords is not None:
                secrets[ADD_SCRAM] = self._passwords.first_users()
            self._process.start([*self._command(port), *options], brokers_environment() | secrets)
            self._bootstrap, self._pids = self._ready()
        except BaseException:
            self._process.close()
            raise

    def _secured(self) -> dict[str, str]:
        """Returns the settings of the only listener, which clients and brokers use; none without TLS and SASL."""
        chosen = protocol(tls=self._is_secured, sasl=self._passwords is not None)
        found = {"listeners": f"{chosen}://localhost:0", "security.inter.broker.protocol": chosen}
        if self._passwords is not None:
            return found | self._passwords.settings(chosen)
        return found if self._is_secured else {}

    def _make_certificates(self) -> None:
        """Creates the certificates that do not exist yet, and adds their paths to the settings."""
        from pybroker.security.tls.certificates import make

        files = self._certificates()
        if not files.server.exists():
            make(files.server.parent)
        named = {"ssl.keystore.location": files.server, "ssl.truststore.location": files.authority}
        self._settings |= {name: str(path) for name, path in named.items()}

    def _certificates(self) -> Files:
        from pybroker.security.tls.certificates import Files

        return Files.of(self.data_dir.absolute() / TLS_FOLDER)

    def _command(self, port: int) -> list[str]:
        is_chosen = port or "listeners" not in self._settings
        return [
            *(sys.executable, "-P", "-m", "pybroker", "start", "--embedded"),
            *(("--port", str(port)) if is_chosen else ()),
            *("--processes", str(self._processes), "--data-dir", str(self.data_dir), "--log-level", self._log_level),
            *(("--temporary",) if self._temporary else ()),
            *as_arguments(self._settings),
            *(word for text in self._acls for word in ("--add-acl", text)),
        ]

    def _ready(self) -> tuple[str, tuple[int, ...]]:
        """Returns the bootstrap servers and process ids in the ready line. Skips other lines, which may come from a
        sitecustomize.

        Raises BrokerFailed.
        """
        deadline = time.monotonic() + self._timeout_s
        while (line := self._process.line(deadline)) is not None:
            if found := READY.search(line):
                return found[1], numbers(found[2])
        is_late = self._process.is_alive and time.monotonic() >= deadline
        code = self._process.kill()
        late = f"not ready within start_timeout_s={self._timeout_s:g}; raise it if a start takes longer here"
        why = late if is_late else f"exit code {code}"
        told = reason(self.log) or "it has logged nothing: is the machine very busy?"
        raise BrokerFailed(f"the broker did not start ({why}): {told}", self.log)

    def _halt(self, order: str, number: int, node_id: int | None) -> None:
        with self._lock:
            if self._processes > 1:
                self._ask(order, node_id)
            else:
                self._only(node_id)
                self._process.send_signal(number)

    def _ask(self, order: str, node_id: int | None) -> tuple[int, ...]:
        """Sends an order to the supervisor and returns the process ids in its answer. Raises BrokerFailed, ValueError,
        RuntimeError.
        """
        self._only(node_id)
        with self._lock:
            self._orders += 1
            head = f"{self._orders} done "
            chosen = self.node_ids if node_id is None else (node_id,)
            self._process.say(f"{self._orders} {order} {','.join(map(str, chosen))}")
            deadline = time.monotonic() + self._timeout_s
            while (line := self._process.line(deadline)) is not None:
                if line.startswith(head):
                    return numbers(line.removeprefix(head))
        why = f"not done after {self._timeout_s:g} s" if self._process.is_alive else "the supervisor has ended"
        raise BrokerFailed(f"{order} {', '.join(map(str, chosen))}: {why}: {self.log.strip()}", self.log)

    def _only(self, node_id: int | None) -> None:
        """Raises ValueError for an unknown id, and RuntimeError if nothing runs."""
        self._check(node_id)
        if not self._process.is_alive:
            raise RuntimeError("the broker is not running: start() or restart() it")

    def _check(self, node_id: int | None) -> None:
        if node_id is not None and node_id not in self.node_ids:
            raise ValueError(f"there is no broker {node_id}: the node ids are {', '.join(map(str, self.node_ids))}")

    def _known(self, value: T) -> T:
        if not value:
            raise RuntimeError("the broker was not started yet: start() it")
        return value


def run(
    processes: int = 1,
    *,
    port: int = 0,
    data_dir: str | Path | None = None,
    log_level: str = "info",
    start_timeout_s: float = 60.0,
    tls: bool = False,
    sasl: str | None = None,
    users: Mapping[str, str] | None = None,
    acls: Iterable[Acl] | None = None,
    **config: object,
) -> EmbeddedBroker:
    """Starts brokers, by default one, on free ports, and returns when they are ready.

    They run until the ``with`` block ends, ``close()`` is called, or the returned object is no longer referenced.
    ``config`` takes Kafka's keys with ``_`` for ``.`` (``num_partitions=3``). The defaults are Kafka's, except that
    ``group.initial.rebalance.delay.ms`` is 0. Environment variables ``KAFKA_…`` are ignored. ``data_dir`` is kept
    afterwards; the default is a temporary folder, which is removed.

    With ``tls`` clients and brokers connect only by TLS. The broker makes a certificate authority and certificates in
    the data folder.

    With ``sasl="SCRAM-SHA-256"`` (or ``SCRAM-SHA-512``, ``PLAIN``) only ``users={"alice": "secret"}`` can log in. In a
    ``data_dir`` that has SCRAM users already, these users get the new passwords, and other users stay.
    ``broker.client_settings("alice")`` returns the settings for a client.

    With ``acls`` a client may do only what these ACLs allow: ``acls=[Acl("alice", "READ", topic="flights")]``. An empty
    list allows nothing, except to ``super_users="User:admin"``. Without ``users`` or client certificates each client is
    ``User:ANONYMOUS``. ACLs that are already in ``data_dir`` stay.

    Raises BrokerFailed, and ValueError or TypeError for unsuitable arguments.
    """
    broker = EmbeddedBroker(
        processes,
        port=port,
        data_dir=data_dir,
        log_level=log_level,
        start_timeout_s=start_timeout_s,
        tls=tls,
        sasl=sasl,
        users=users,
        acls=acls,
        **config,
    )
    return broker.start()


def environment() -> dict[str, str]:
    """Returns this process's environment, changed so that the child imports the same ``pybroker``, installed or not.

    A script inside a clone may import sources that are not built. The child does not use these sources. It imports the
    installed package and, because of ``-P``, no module from the working folder.
    """
    package = Path(__file__).parent.parent
    codec = find_spec("cy.wire.codec")
    if codec is None or codec.origin is None or Path(codec.origin).parent.parent != package:
        return dict(os.environ)
    paths = (str(package), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def brokers_environment() -> dict[str, str]:
    """Returns ``environment`` without the variables that configure another broker."""
    return {name: text for name, text in environment().items() if not name.startswith(OTHERS)}


def _check_types(**given: tuple[object, type | tuple[type, ...]]) -> None:
    """Raises TypeError if an argument has the wrong type."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name}={value!r} is not a number")


def _check_keys(config: Mapping[str, object]) -> None:
    """Raises TypeError for an argument that is not a key of Kafka but a name of another library."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            raise TypeError(f"{name}={{…}}: Kafka's keys are arguments: run(num_partitions=3), or run(**{name})")
        if (here := FOREIGN.get(name)) is not None:
            raise TypeError(f"{name}={value!r}: here it is {here}")


def setting(key: str, value: object) -> tuple[str, str]:
    """Returns key and text in the form of ``--set``."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, (list, tuple)):
        text = (";" if key == "super_users" else ",").join(map(str, value))
    return key_with_dots(key), text


def reason(log: str) -> str:
    """Returns why the broker did not start, in words for a caller of ``run``; the whole log if it gives no reason."""
    found = REASON.search(log)
    if found is None:
        return log.strip()
    text = log[found.end() :].strip()
    for option, argument in ARGUMENTS.items():
        text = text.replace(option, argument)
    return text


def numbers(text: str) -> tuple[int, ...]:
    """Parses ``4711,4712``."""
    return tuple(map(int, filter(None, text.split(","))))
