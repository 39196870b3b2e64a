"""Examines the cluster behind the bootstrap addresses: which brokers answer, what they advertise, and their state. With
``write``, it also sends a record and reads it back, and compares the clocks.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.doctor import machine, secured
from pybroker.cli.reaching import asking, network
from pybroker.cli.reaching.finding import ERROR, OK, WARNING, Finding
from pybroker.cli.reaching.network import Reach
from pyclient.errors import ConfigError, KafkaError, SaslRefused, TlsRefused

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import ClusterDescription

SKEW_MS = 1000


def examine(cluster: Cluster, timeout: float, write: bool) -> Iterator[Finding]:
    """Examines everything from the user's bootstrap addresses to the state of the cluster."""
    ways = [network.reach(host, port, timeout) for host, port in network.addresses(cluster.bootstrap)]
    yield from map(network.bootstrap, ways)
    served = []
    for way in ways:
        if way.is_open:
            if secured.is_by_tls(cluster.settings):
                shaken = secured.handshake(cluster.settings, way, timeout)
                yield shaken
                if shaken.level == ERROR:
                    continue
            found = identity(cluster, way, timeout)
            if isinstance(found, Finding):
                yield found
            else:
                served.append((way, found))
    if served:
        told = list(described(cluster, served, timeout))
        yield from told
        if any(each.level == ERROR for each in told):
            yield Finding(WARNING, "health", "not checked: clients cannot reach every broker", "fix this first")
            return
        yield from state(cluster)
        if write:
            yield from there_and_back(cluster)


def identity(cluster: Cluster, way: Reach, timeout: float) -> ClusterDescription | Finding:
    """Asks the broker at an address for its cluster; returns a finding if the answer is not a broker's."""
    is_plain = secured.is_plain(cluster.settings)
    try:
        return asking.brokers(way.host, way.port, timeout) if is_plain else identity_by_client(cluster, way, timeout)
    except ConfigError as error:
        return Finding(ERROR, f"bootstrap {way.name}", str(error), "correct the settings of the client")
    except (TlsRefused, SaslRefused) as error:
        return Finding(ERROR, f"bootstrap {way.name}", str(error), "correct the settings of one side")
    except (KafkaError, OSError, asking.Foreign) as error:
        return foreign(cluster, way, timeout, str(error))


def foreign(cluster: Cluster, way: Reach, timeout: float, error: str) -> Finding:
    """Returns a finding that says why this client finds no broker at an address, and which side is wrong."""
    is_plain, asked = secured.is_plain(cluster.settings), (way.host, way.port, timeout)
    is_tls = asking.speaks_tls(*asked) if is_plain else secured.is_by_tls(cluster.settings)
    mechanisms = [] if secured.is_by_sasl(cluster.settings) else asking.mechanisms(*asked, is_tls)
    return network.foreign(way.host, way.port, error, is_tls and bool(is_plain or mechanisms), mechanisms)


def identity_by_client(cluster: Cluster, way: Reach, timeout: float) -> ClusterDescription:
    """Asks through a client, which has the credentials for TLS and SASL. Raises KafkaError."""
    from pyclient import Admin

    with Admin(way.name, cluster.settings, default_api_timeout_ms=round(timeout * 2000)) as admin:
        admin.connect(timeout)
        return admin.describe_cluster()


def described(
    cluster: Cluster, served: list[tuple[Reach, ClusterDescription]], timeout: float
) -> Iterator[Finding]:
    """Describes the cluster as its brokers do, with the addresses that they give to clients."""
    came_by, found = served[0]
    ids = sorted({str(each.cluster_id) for _, each in served})
    if len(ids) > 1:
        yield Finding(ERROR, "cluster", f"the addresses lead to several: {', '.join(ids)}", "name those of one")
    brokers = ", ".join(str(each.id) for each in found.brokers)
    yield Finding(OK, "cluster", f"{found.cluster_id}, brokers {brokers}, controller {found.controller_id}")
    ways = [network.reach(broker.host, broker.port, timeout) for broker in found.brokers]
    for broker, way in zip(found.brokers, ways, strict=True):
        there = identity(cluster, way, timeout) if way.is_open else None
        if isinstance(there, Finding):
            is_plain = secured.is_plain(cluster.settings)
            advice = network.remedy(way, came_by) if is_plain else there.advice
            yield there._replace(check=f"broker {broker.id} advertises {way.name}", advice=advice)
            continue
        yield network.advertised(broker.id, way, came_by, ways)
        if there is not None:
            yield from network.other_cluster(broker.id, way, found.cluster_id, there.cluster_id)


def state(cluster: Cluster) -> Iterator[Finding]:
    """Yields the cluster's problems, such as partitions without a leader, or offline log dirs. A client may work well
    without the right to query them.
    """
    from pybroker.cli.cluster import command as clusters

    try:
        with cluster.admin() as admin:
            troubles = list(clusters.troubles(admin))
    except (KafkaError, TimeoutError) as error:
        if advice := granting(error):
            yield Finding(WARNING, "health", f"not checked: {told(error)}", advice)
        else:
            yield Finding(ERROR, "health", str(error), "see the addresses above: clients cannot work")
        return
    for each in troubles:
        yield Finding(each.severity, "health", f"{each.what}: {each.where}", "`pybroker cluster health` shows it again")
    if not troubles:
        yield Finding(OK, "health", "every partition has its leader and its replicas")


def log_dirs(cluster: Cluster) -> list[Path]:
    """Returns the log dirs of those brokers that run on this machine and as this user. None without the right to query
    them.
    """
    try:
        with cluster.admin() as admin:
            here = [broker.id for broker in admin.describe_cluster().brokers if machine.is_here(broker.host)]
            found = admin.describe_log_dirs(here)
    except (KafkaError, TimeoutError):
        return []
    return [Path(path) for dirs in found.values() for path in dirs if os.access(path, os.W_OK | os.X_OK)]


def there_and_back(cluster: Cluster) -> Iterator[Finding]:
    """Sends a record through a temporary topic, where the broker sets the timestamp, and reads it back."""
    topic = f"doctor-{secrets.token_hex(4)}"
    try:
        with cluster.admin() as admin:
            admin.create_topics(topic, num_partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
            try:
                yield from written(cluster, topic)
            finally:
                remove(admin, topic)
    except (KafkaError, TimeoutError) as error:
        advice = granting(error) or "see the log of the broker"
        yield Finding(ERROR, "a record there and back", told(error), advice)


def told(error: Exception) -> str:
    """Returns the text of an error, without the command that is also in the advice."""
    return str(error).partition(", which an administrator grants")[0]


def granting(error: Exception) -> str:
    """Says how an administrator grants a missing right."""
    return f"an administrator grants it: `{error.grant}`" if isinstance(error, KafkaError) and error.grant else ""


def written(cluster: Cluster, topic: str) -> Iterator[Finding]:
    from pyclient import TopicPartition

    with cluster.producer(linger_ms=0) as producer:
        producer.partitions_for(topic)
        begun = time.time()
        dated = producer.send(topic, b"pybroker doctor").result(timeout=30).timestamp
        ended = time.time()
    with cluster.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        came = len(consumer.poll(30))
    if not came:
        yield Finding(ERROR, "a record there and back", "written, and not read within 30 s", "is the fetch stuck?")
        return
    yield Finding(OK, "a record there and back", f"acknowledged in {(ended - begun) * 1000:.1f} ms, and read")
    yield skew(dated, begun * 1000, ended * 1000)


def skew(dated_ms: float, begun_ms: float, ended_ms: float) -> Finding:
    """Compares the broker's clock, which dated the record, with this machine's clock before and after."""
    off = max(begun_ms - dated_ms, dated_ms - ended_ms, 0.0)
    what = "clock of the broker"
    if off > SKEW_MS:
        text = f"{off / 1000:.1f} s {'behind' if dated_ms < begun_ms else 'ahead of'} this one"
        return Finding(WARNING, what, text, "let NTP set both clocks: retention and lookups by time use them")
    return Finding(OK, what, "the same as this one")


def remove(admin: Admin, topic: str) -> None:
    admin.delete_topics(topic, check=False)
