"""The options of ``start``, and the configuration that comes from options, environment and file."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pybroker.config import (
    BrokerConfig,
    ConfigError,
    Endpoint,
    advertised_listeners,
    listeners,
    remarks,
    rights,
    tls_slips,
    unprotected,
)
from pybroker.data_folder import DataFolder, plan
from pybroker.process.secret_settings import is_secret
from pybroker.store.stores import StoreOptions

if TYPE_CHECKING:
    import ssl

    from pybroker.config.zookeeper_login import Login, TicketLogin
    from pybroker.security.acls import AclBinding
    from pybroker.security.sasl.first_users import FirstUser

RESTART_DELAY_S = 1.0
LAST_PORT = 65535
_SERVER = r"(?:[^\s,:/\[\]]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?"
ZOOKEEPER = re.compile(rf"{_SERVER}(?:,{_SERVER})*(?:/[^\s,]*)?")

OWN = frozenset(
    {
        *("node.id", "broker.id", "broker.rack", "log.dirs", "log.dir", "zookeeper.connect"),
        *("listeners", "host.name", "port", "advertised.listeners", "advertised.host.name", "advertised.port"),
        *("listener.security.protocol.map", "inter.broker.listener.name", "security.inter.broker.protocol"),
    }
)
"""Keys that each joining broker sets for itself. It also sets passwords for itself."""

REPLICATED = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")

logger = logging.getLogger("pybroker.start")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options on the command line of ``start``."""

    settings: tuple[str, ...] = ()
    file: str | None = None
    data_dir: str | None = None
    host: str | None = None
    port: int | None = None
    node_id: int | None = None
    processes: int = 1
    zookeeper: str | None = None
    log_level: str = "info"
    audit_log: str | None = None
    """The file of the audit log. Without it, the normal log has the lines of the audit log."""
    restart_delay: float = RESTART_DELAY_S
    """Seconds until an ended broker process is restarted."""
    embedded: bool = False
    """True if the broker also stops when stdin or the parent process ends."""
    temporary: bool = False
    """True if the data folder is removed at the end."""
    join: bool = False
    """True if these brokers join others on this data folder, whose supervisor serves the store."""
    base: str | None = None
    """A file with the settings of the joined supervisor, which all other settings override."""
    add_scram: tuple[str, ...] = field(default=(), repr=False)
    """Users that should have passwords (``security.sasl.first_users``)."""
    set_scram: bool = False
    """True if the passwords of ``add_scram`` replace stored ones."""
    add_acl: tuple[str, ...] = ()
    """ACLs that should exist (``security.first_acls``)."""
    member: bool = False
    """True for a broker of a supervisor; the supervisor has locked the data folder, and perhaps serves the store."""

    @property
    def shares_folder(self) -> bool:
        """True if another process has locked the data folder and, without ZooKeeper, serves the store."""
        return self.join or self.member


def configure(options: StartOptions) -> BrokerConfig:
    """Returns the configuration of the broker, or of the first of several. Raises ConfigError."""
    source = "an argument of pybroker.run()" if options.embedded else "--set"
    given = BrokerConfig.load(options.settings, file=options.file, source=source)
    alone = is_alone(options, given)
    first_users(options)
    first_acls(options)
    tls_slips.check(given)
    unprotected.check(given, alone=alone)  # before the values that are chosen below replace the given ones
    chosen = list(options.settings)
    node_id = given.node_id if options.node_id is None else options.node_id
    chosen.append(f"node.id={1 if node_id is None else node_id}")
    chosen.append(f"listeners={choose_listeners(given, options.host, options.port)}")
    if options.zookeeper:
        chosen.append(f"zookeeper.connect={options.zookeeper}")
    config = BrokerConfig.load(chosen, file=options.file, base=options.base)
    if config["zookeeper.connect"] and not ZOOKEEPER.fullmatch(config["zookeeper.connect"]):
        text = config["zookeeper.connect"]
        raise ConfigError(f"--zookeeper (zookeeper.connect) {text} is not of the form host:port,host:port/chroot")
    if config["zookeeper.connect"] and options.join:
        raise ConfigError("--join is for brokers of one data folder: with --zookeeper, give each its own --data-dir")
    unprotected.check(config, alone=alone)
    return config


def first_users(options: StartOptions) -> list[FirstUser]:
    """Returns the users that should have passwords. Raises ConfigError."""
    if not options.add_scram:
        return []
    from pybroker.security.sasl.first_users import parse

    return [parse(text)._replace(is_new_only=not options.set_scram) for text in options.add_scram]


def first_acls(options: StartOptions) -> list[AclBinding]:
    """Returns the ACLs that should exist. Raises ConfigError."""
    if not options.add_acl:
        return []
    from pybroker.security.first_acls import parse

    return [parse(text) for text in options.add_acl]


def is_alone(options: StartOptions, config: BrokerConfig) -> bool:
    """Returns whether this broker is the only one of its cluster."""
    several = options.processes > 1 or options.shares_folder
    return not (several or options.zookeeper or config["zookeeper.connect"])


def remark(config: BrokerConfig, options: StartOptions) -> None:
    """Logs which settings and variables are ignored, and which contradict an option."""
    for line in (*remarks.of_environment(os.environ), *remarks.of_settings(config)):
        logger.warning("%s", line)
    if line := remarks.of_internals(config):
        logger.info("%s", line)
    if line := rights.open_to_all(config):
        logger.warning("%s (docs/protect-a-broker.md)", line)
    if options.audit_log is not None and not config[rights.AUTHORIZER]:
        logger.warning("--audit-log %s stays empty: authorizer.class.name is not set", options.audit_log)
    told = {endpoint.port for endpoint in advertised_listeners(config).values()}
    if options.port and told and options.port not in told:
        text = ",".join(map(str, advertised_listeners(config).values()))
        source = config.where("advertised.listeners")
        line = "advertised.listeners=%s (from %s) sends clients elsewhere than to --port %d"
        logger.warning(line, text, source, options.port)


def with_base(options: StartOptions) -> StartOptions:
    """Adds the supervisor's file of settings to the options of joining brokers. Raises ConfigError."""
    if not options.join:
        return options
    folder = plan(options.data_dir, 0, BrokerConfig.load(options.settings, file=options.file).log_dirs)
    if folder.settings.exists():
        return replace(options, base=str(folder.settings))
    if folder.socket.exists():
        text = "%s is missing, because its supervisor is older: only this broker's own settings apply"
        logger.warning(text, folder.settings)
    return options


def settings_to_share(config: BrokerConfig) -> dict[str, str]:
    """Returns the settings that joining brokers get, unless they set their own."""
    given = config.given().items()
    return {name: text for name, text in given if name not in OWN and not is_secret(name)}


def choose_listeners(given: BrokerConfig, host: str | None, port: int | None) -> str:
    """Returns the value of ``listeners``. An option of the command line overrides the configuration. Raises
    ConfigError.
    """
    configured = any(given.is_set(name) for name in ("listeners", "host.name", "port"))
    present = listeners(given) if configured else ()
    if given.is_set("listeners") and not present:
        source = f" (from {where})" if (where := given.where("listeners")) else ""
        text = ",".join(given["listeners"])
        raise ConfigError(f"listeners={text}{source} has no listener for clients: all are in controller.listener.names")
    if present and host is None and port is None:
        return ",".join(map(str, present))
    if len(present) > 1:
        option = "--port" if host is None else "--host"
        source = f" (from {where})" if (where := given.where("listeners")) else ""
        text = ",".join(map(str, present))
        why = f"{option} needs a single listener, but listeners={text}{source} has {len(present)}"
        raise ConfigError(f"{why}: set listeners instead")
    first = present[0] if present else Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
    return str(
        first._replace(
            host=first.host if host is None else host.strip("[]"),
            port=first.port if port is None else port,
        )
    )


def store_options(options: StartOptions, config: BrokerConfig, folder: DataFolder) -> StoreOptions:
    """Returns which coordination store a broker uses: ZooKeeper, the supervisor's, or one of its own. Raises
    ConfigError.
    """
    timeout_ms = config["zookeeper.session.timeout.ms"]
    if config["zookeeper.connect"]:
        waiting_ms = config["zookeeper.connection.timeout.ms"]
        return StoreOptions(
            zookeeper=config["zookeeper.connect"],
            session_timeout_ms=timeout_ms,
            connection_timeout_ms=waiting_ms,
            tls=_tls_to_zookeeper(config),
            login=_login_at_zookeeper(config),
            is_guarded=config["zookeeper.set.acl"],
        )
    if options.shares_folder:
        if not config.is_set("zookeeper.session.timeout.ms"):
            timeout_ms = config["broker.session.timeout.ms"]
        return StoreOptions(socket=str(folder.socket), session_timeout_ms=timeout_ms)
    return StoreOptions(file=str(folder.store))


def _tls_to_zookeeper(config: BrokerConfig) -> ssl.SSLContext | None:
    """Returns the TLS context for ZooKeeper, None without TLS. Raises ConfigError."""
    if not config["zookeeper.ssl.client.enable"]:
        return None
    from pybroker.security.tls.zookeeper_tls import context_of  # saves the import if it is off

    return context_of(config)


def _login_at_zookeeper(config: BrokerConfig) -> Login | TicketLogin | None:
    """Returns the login at ZooKeeper, None without one. Raises ConfigError."""
    from pybroker.config.zookeeper_login import read  # likewise

    return read(config)


def settings_of_members(options: StartOptions, config: BrokerConfig) -> list[tuple[str, ...]]:
    """Returns the settings of each of several brokers. Raises ConfigError."""
    common = {} if options.join else replicated(config, options.processes)
    told = tuple(f"{name}={text}" for name, text in common.items())
    return [told + settings_of_member(config, index) for index in range(options.processes)]


def replicated(config: BrokerConfig, processes: int) -> dict[str, str]:
    """Returns replication factors of internal topics for so many brokers that start together, unless they are set.

    With these, the topics wait for all brokers, even if a client comes when only the first broker runs.
    """
    factor = max(processes, config["default.replication.factor"])
    return {name: str(min(config[name], factor)) for name in REPLICATED if not config.is_set(name)}


def settings_of_member(config: BrokerConfig, index: int) -> tuple[str, ...]:
    """Returns the settings of broker ``index`` among several, in the form of ``--set``. Raises ConfigError."""
    node_id = config["node.id"] + index
    own = [f"node.id={node_id}", f"listeners={shifted(listeners(config), index)}"]
    told = advertised_listeners(config)
    if told:
        own.append(f"advertised.listeners={shifted(told.values(), index)}")
    if config["zookeeper.connect"]:
        own.append(f"zookeeper.connect={config['zookeeper.connect']}")
    if config.log_dirs:
        own.append(f"log.dirs={','.join(f'{path}/broker-{node_id}' for path in config.log_dirs)}")
    return tuple(own)


def shifted(endpoints: Iterable[Endpoint], index: int) -> str:
    """Returns the endpoints with ``index`` added to their ports; a free port (0) stays 0."""
    moved = [each._replace(port=each.port + index if each.port else 0) for each in endpoints]
    for each in moved:
        if each.port > LAST_PORT:
            raise ConfigError(f"port {each.port} of broker {index + 1} is above {LAST_PORT}: choose a lower --port")
    return ",".join(map(str, moved))
