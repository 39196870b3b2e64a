"""A real ZooKeeper ensemble for tests, from Debian's package, whose servers can be killed and restarted.

``with Ensemble(folder, 3) as ensemble`` runs three server processes on free ports of 127.0.0.1, with their data under
``folder``. Clients connect to ``ensemble.hosts``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, Self

from harness.servers.brokers import free_port

JAR = Path(os.environ.get("PYBROKER_ZOOKEEPER_JAR", "/usr/share/java/zookeeper.jar"))
OF_TLS = [JAR.parent / f"netty-{name}.jar" for name in ("codec", "resolver")]
SASL = "org.apache.zookeeper.server.auth"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx192m", "-Djava.net.preferIPv4Stack=true")
PATIENCE_S = 180.0
TICK_MS = 500


class EnsembleError(RuntimeError):
    """A server could not be started. The text contains its output."""


class Tls(NamedTuple):
    """PEM files of a server that also listens with TLS: its key with its certificate, and the certificates that it
    trusts.
    """

    keys: Path
    authority: Path


class Kerberos(NamedTuple):
    """The principal of a server, its keytab, and the ``krb5.conf``."""

    principal: str
    keytab: Path
    krb5_conf: Path


class Server:
    """One server: its folder, its port, and its process while it runs."""

    def __init__(
        self,
        folder: Path,
        number: int,
        port: int,
        host: str,
        tls: Tls | None,
        users: Mapping[str, str] | None,
        kerberos: Kerberos | None = None,
    ) -> None:
        self.folder = folder
        self.logins = None if users is None and kerberos is None else folder / "jaas.conf"
        self.users = users
        self.kerberos = kerberos
        self.tls = tls
        self.tls_port = 0 if tls is None else free_port(host)
        self.host = host
        self.number = number
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def configure(self, members: list[str]) -> None:
        """Writes the server's configuration."""
        data = self.folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(self.number))
        lines = [
            *(f"tickTime={TICK_MS}", "initLimit=40", "syncLimit=20", "maxClientCnxns=0"),
            *("minSessionTimeout=1000", "maxSessionTimeout=60000"),
            *(f"dataDir={data}", f"clientPort={self.port}", f"clientPortAddress={self.host}"),
            *("admin.enableServer=false", "4lw.commands.whitelist=*", *members),
        ]
        if self.tls is not None:
            lines += [
                *(f"secureClientPort={self.tls_port}", f"secureClientPortAddress={self.host}"),
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                *("ssl.keyStore.type=PEM", f"ssl.keyStore.location={self.tls.keys}"),
                *("ssl.trustStore.type=PEM", f"ssl.trustStore.location={self.tls.authority}", "ssl.clientAuth=need"),
            ]
        if self.logins is not None:
            lines.append(f"authProvider.sasl={SASL}.SASLAuthenticationProvider")
        if self.users is not None:
            self.let_in(self.users)
        elif self.kerberos is not None:
            lines.append("kerberos.removeHostFromPrincipal=true")
            who = f'keyTab="{self.kerberos.keytab}" principal="{self.kerberos.principal}"'
            self._write(f"{KERBEROS_MODULE} required useKeyTab=true storeKey=true {who}")
        (self.folder / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def let_in(self, users: Mapping[str, str]) -> None:
        """Writes the SASL users with their passwords. They take effect with the next start."""
        options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        self._write(f"{SASL}.DigestLoginModule required {options}")

    def _write(self, module: str) -> None:
        assert self.logins is not None
        self.logins.write_text(f"Server {{ {module}; }};\n")

    def start(self) -> None:
        """Starts the process. It serves clients once ``mode`` is not empty."""
        self._log = (self.folder / "log").open("ab")
        classes = ":".join([str(self.folder), str(JAR), *([] if self.tls is None else map(str, OF_TLS))])
        logins = [] if self.logins is None else [f"-Djava.security.auth.login.config={self.logins}"]
        if self.kerberos is not None:
            logins.append(f"-Djava.security.krb5.conf={self.kerberos.krb5_conf}")
        self.process = subprocess.Popen(
            ["java", *JVM, *logins, "-cp", classes, MAIN, str(self.folder / "zoo.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def signal(self, number: int) -> None:
        """Sends a signal, to halt (SIGSTOP) or continue (SIGCONT) the process. After SIGSTOP it waits until all threads
        have halted, because a thread that still runs on another core could answer.
        """
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def kill(self) -> None:
        """Kills the process with SIGKILL, if it runs."""
        if self.process is not None and self._log is not None:
            self.process.kill()
            self.process.wait()
            self._log.close()
            self.process = None

    def mode(self) -> str:
        """Returns ``standalone``, ``leader`` or ``follower``, or an empty text while the server does not serve."""
        for line in self.ask("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    def ask(self, word: str) -> str:
        """Returns the answer to one of the four-letter words."""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 2) as connection:
            connection.sendall(word.encode())
            chunks = iter(lambda: connection.recv(1 << 16), b"")
            return b"".join(chunks).decode()
        return ""


class Ensemble:
    """The servers of one ZooKeeper. As a context manager it runs them, and leaves none of them at the end."""

    def __init__(
        self,
        folder: Path,
        servers: int = 1,
        host: str = "127.0.0.1",
        tls: Tls | None = None,
        users: Mapping[str, str] | None = None,
        kerberos: Kerberos | None = None,
    ) -> None:
        """``host``: the address on which the servers listen. ``tls``: they also listen with TLS on a second port.
        ``users``: the SASL users with their passwords; or ``kerberos``, to which the servers belong. Raises
        EnsembleError if the package is missing.
        """
        if not JAR.exists():
            raise EnsembleError(f"{JAR} is missing: apt-get install zookeeper (sh install.sh tests does)")
        ports = [free_port(host) for _ in range(3 * servers)]
        folders = [folder / f"zookeeper-{n + 1}" for n in range(servers)]
        self.servers = [Server(each, n + 1, ports[3 * n], host, tls, users, kerberos) for n, each in enumerate(folders)]
        members = [f"server.{n + 1}={host}:{ports[3 * n + 1]}:{ports[3 * n + 2]}" for n in range(servers)]
        for server in self.servers:
            server.configure(members if servers > 1 else [])

    def __enter__(self) -> Self:
        """Starts every server. Raises EnsembleError if one does not start."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kills every server."""
        self.stop()

    @property
    def hosts(self) -> str:
        """``host:port`` of every server, comma-separated."""
        return ",".join(f"{server.host}:{server.port}" for server in self.servers)

    @property
    def tls_hosts(self) -> str:
        """``host:port`` of every server's TLS port, comma-separated."""
        return ",".join(f"{server.host}:{server.tls_port}" for server in self.servers)

    def start(self) -> None:
        """Starts every server that does not run. Returns when all serve clients. Raises EnsembleError."""
        for server in self.servers:
            if server.process is None:
                server.start()
        for server in self.servers:
            self.wait_for(server)

    def wait_for(self, server: Server) -> None:
        """Waits until the server serves clients."""
        deadline = time.monotonic() + PATIENCE_S
        while not server.mode():
            dead = server.process is None or server.process.poll() is not None
            if dead or time.monotonic() > deadline:
                raise EnsembleError((server.folder / "log").read_text(errors="replace")[-4000:])
            time.sleep(0.05)

    def leader(self) -> Server:
        """Returns the leader, or the only server."""
        return next(server for server in self.servers if server.mode() in ("leader", "standalone"))

    def stop(self) -> None:
        """Kills every server."""
        for server in self.servers:
            if server.process is not None:
                server.signal(signal.SIGCONT)
            server.kill()
