"""What to use instead of a setting of another client (librdkafka, kafka-python, aiokafka) that this client lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_CHAIN_FILE: Final = "ssl.keystore.location, a PEM of key and certificates, or ssl.keystore.certificate.chain as text"
_KEY_FILE: Final = "ssl.keystore.location, a PEM of key and certificates, or ssl.keystore.key as text"
_CA_FILE: Final = "ssl.truststore.location, or ssl.truststore.certificates as text"
_HOST_NAMES: Final = "ssl.endpoint.identification.algorithm: empty does not check host names"

_RENAMED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("metadata.broker.list", "servers", "brokers", "broker", "hosts", "host"), "bootstrap.servers"),
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory, in bytes",
    "queue.buffering.max.messages": "buffer.memory, in bytes",
    "batch.num.messages": "batch.size, in bytes",
    "max.batch.size": "batch.size",
    "request.required.acks": "acks",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "compression.codec": "compression.type",
    "compression.level": "compression.gzip.level, compression.lz4.level or compression.zstd.level",
    "partitioner": "partitioner.class; without it, a key goes where librdkafka's murmur2_random puts it",
    "partitioner.cb": "partitioner.class",
    "interceptors": "interceptor.classes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "queued.max.messages.kbytes": "queued.max.bytes, in bytes",
    "queued.min.messages": "queued.max.bytes, in bytes",
    "auto.commit.enable": "enable.auto.commit",
    "from.beginning": "auto.offset.reset=earliest",
    "rebalance.timeout.ms": "max.poll.interval.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    **dict.fromkeys(("topic.metadata.refresh.fast.interval.ms", "fetch.error.backoff.ms"), "retry.backoff.ms"),
    "reconnect.backoff.jitter.ms": "reconnect.backoff.max.ms",
    **dict.fromkeys(("ssl.ca.location", "ssl.cafile", "ssl.ca"), _CA_FILE),
    **dict.fromkeys(("ssl.certificate.location", "ssl.certfile", "ssl.certificate"), _CHAIN_FILE),
    "ssl.password": "ssl.key.password",
    **dict.fromkeys(("ssl.key.location", "ssl.keyfile", "ssl.key"), _KEY_FILE),
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.check.hostname": _HOST_NAMES,
    "enable.ssl.certificate.verification": f"{_HOST_NAMES}, but certificates are always checked",
    "ssl.context": "the keys ssl.*, such as ssl.truststore.location",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    **dict.fromkeys(("oauth.cb", "oauthbearer.token.refresh.cb"), "sasl.oauth.token.provider"),
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.method": "sasl.oauthbearer.token.endpoint.url with client id and secret, which needs no method",
    "sasl.oauthbearer.config": "sasl.oauth.token.provider, or sasl.jaas.config",
}
"""The names of our settings, by the names of other clients."""

_NUMBERS: Final = "metrics() of a producer or consumer returns the numbers whenever you ask"
_LOG: Final = "the client logs to logging.getLogger('pyclient')"
_DELIVERY: Final = "on_delivery(metadata, error) is an argument of send()"
_VERSIONS: Final = "the client asks each broker for its versions; leave it out"
_WITHOUT: Final = (
    "background.event.cb", "bootstrap.controllers", "bootstrap.resolve.timeout.ms", "broker.address.family",
    "broker.address.ttl", "buffer.memory.allocation.strategy", "builtin.features", "client.dns.lookup",
    "closesocket.cb", "config.providers", "connect.cb", "consume.callback.max.messages",
    "coordinator.query.interval.ms", "enable.gapless.guarantee", "enable.metrics.push", "enable.random.seed",
    "enabled.events", "fetch.queue.backoff.ms", "group.protocol.type", "internal.termination.signal",
    "log.connection.close", "log.thread.name", "loop", "message.copy.max.bytes",
    "metadata.recovery.rebootstrap.trigger.ms", "msg.order.cmp", "offset.store.method", "offset.store.path",
    "offset.store.sync.interval.ms", "opaque", "open.cb", "partitioner.rack.aware", "plugin.library.paths",
    "produce.offset.report", "queue.buffering.backpressure.threshold", "queuing.strategy",
    "receive.message.max.bytes", "resolve.cb", "sasl.oauthbearer.header.urlencode", "security.providers",
    "share.acknowledgement.mode", "share.acquire.mode", "socket.blocking.max.ms", "socket.cb",
    "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable", "ssl.ca.certificate.stores",
    "ssl.certificate.verify.cb", "ssl.curves.list", "ssl.engine.callback.data", "ssl.engine.factory.class",
    "ssl.engine.id", "ssl.engine.location", "ssl.keymanager.algorithm", "ssl.provider", "ssl.providers",
    "ssl.secure.random.implementation", "ssl.sigalgs.list", "ssl.trustmanager.algorithm",
    "sticky.partitioning.linger.ms", "topic.blacklist", "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.sparse", "transaction.two.phase.commit.enable",
)  # fmt: skip

_HINTS: Final[Mapping[str, str]] = {
    **{name: f"here it is {meaning}" for name, meaning in _RENAMED.items()},
    **dict.fromkeys(("stats.cb", "statistics.interval.ms", "metric.reporters", "metrics.num.samples",
                     "metrics.recording.level", "metrics.sample.window.ms"), _NUMBERS),
    "error.cb": f"calls raise their errors; {_LOG}, also when no broker can be reached",
    "throttle.cb": "there is no such event: the broker delays its answers, and the client waits for them",
    **dict.fromkeys(("logger", "log.cb", "log.queue"), f"{_LOG}, which takes handlers and levels"),
    "log.level": f"{_LOG}: set the level there",
    "debug": f"{_LOG}: set its level to DEBUG",
    "enable.partition.eof": "at_end() of a consumer returns the partitions that were read to their end",
    **dict.fromkeys(("on.delivery", "dr.cb", "dr.msg.cb", "delivery.report.only.error"), _DELIVERY),
    "rebalance.cb": "listener=… of Consumer or subscribe() is called at rebalances",
    **dict.fromkeys(("on.commit", "offset.commit.cb"), "commit_async(on_commit=…) reports the result of a commit"),
    "topic": "a consumer takes topics=[…], and a producer's send() the topic",
    "timeout": "poll(), get(), flush() and result() take a timeout in seconds; for requests it is request.timeout.ms",
    "schema.registry.url": "there is no client of a registry here; a serializer or deserializer may be any function",
    "consume.cb": "poll() and iteration of a consumer return its records",
    "enable.auto.offset.store": "set enable.auto.commit=false, and commit(record) what you have processed",
    **dict.fromkeys(("default.topic.config", "default.topic.conf"), "put its settings beside the others"),
    **dict.fromkeys(("api.version", "api.version.request", "api.version.request.timeout.ms", "api.version.fallback.ms",
                     "api.version.auto.timeout.ms", "broker.version.fallback"), _VERSIONS),
    **dict.fromkeys(("ssl.crl.location", "ssl.crlfile"), "this client reads no revocation lists"),
    **dict.fromkeys(("https.ca.location", "https.ca.pem"), "the token endpoint's certificate is checked against "
                    "those of the system, or of the file that SSL_CERT_FILE names in the environment"),
    **dict.fromkeys(_WITHOUT, "there is no such setting here; leave it out"),
}  # fmt: skip
"""The hints by the setting's name with dots."""

_TOKENS: Final = "sasl.oauth.token.provider may get a token in any way"
_CHECKS: Final = "the broker checks tokens, the client does not; leave it out"
_PREFIXES: Final[Mapping[str, str]] = {
    "sasl.kerberos.": "sasl.kerberos.service.name, .keytab and .principal are there; the host is the broker's",
    "sasl.oauthbearer.assertion.": _TOKENS,
    "sasl.oauthbearer.metadata.": _TOKENS,
    "sasl.oauthbearer.grant.": _TOKENS,
    "sasl.oauthbearer.extensions": _TOKENS,
    "sasl.oauthbearer.jwt.retriever.": _TOKENS,
    **dict.fromkeys(
        (
            *("sasl.oauthbearer.allow.unverified.", "sasl.oauthbearer.clock.skew.", "sasl.oauthbearer.expected."),
            *("sasl.oauthbearer.jwks.endpoint.", "sasl.oauthbearer.jwt.validator."),
            *("sasl.oauthbearer.scope.claim.", "sasl.oauthbearer.sub.claim."),
        ),
        _CHECKS,
    ),
    "enable.sasl.oauthbearer.unsecure.": _TOKENS,
}


def hint(dotted: str) -> str | None:
    """Returns what to do instead of a setting of another client, None if no such setting is known. ``dotted``: its name
    with dots.
    """
    found = (text for start, text in _PREFIXES.items() if dotted.startswith(start))
    return _HINTS.get(dotted) or next(found, None)


def meant(dotted: str) -> str:
    """Returns the key that the hint about a setting names first; without a hint, the setting's own name."""
    return re.split(r"[,; =]", _RENAMED.get(dotted, dotted), maxsplit=1)[0]
