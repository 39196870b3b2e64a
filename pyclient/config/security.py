"""The keys of TLS and SASL."""

from __future__ import annotations

from typing import Final

from pyclient.config.key import BOOL, FLOAT, INT, LIST, MAX_LONG, OBJECT, PASSWORD, STRING, Key

PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", "how connections are secured: SSL is TLS, SASL_… also "
                      "says who the client is", words=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
BY_TLS: Final = frozenset({"SSL", "SASL_SSL"})
BY_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})

SSL: Final = (
    Key("ssl.truststore.location", STRING, None, "the file with the certificates that are trusted: PEM, PKCS12 or JKS; "
        "without it, and without ssl.truststore.certificates, those of the system"),
    Key("ssl.truststore.certificates", STRING, None, "the same as the text of a PEM"),
    Key("ssl.truststore.password", PASSWORD, None, "the password of a PKCS12 or JKS file"),
    Key("ssl.truststore.type", STRING, None, "PEM, PKCS12 or JKS; without it, the file's first bytes tell"),
    Key("ssl.keystore.location", STRING, None, "the file with the client's key and its certificates, for brokers that "
        "ask for one: PEM, PKCS12 or JKS"),
    Key("ssl.keystore.key", PASSWORD, None, "the client's key as the text of a PEM"),
    Key("ssl.keystore.certificate.chain", STRING, None, "the certificates of that key as the text of a PEM"),
    Key("ssl.keystore.password", PASSWORD, None, "the password of a PKCS12 or JKS file"),
    Key("ssl.keystore.type", STRING, None, "PEM, PKCS12 or JKS; without it, the file's first bytes tell"),
    Key("ssl.key.password", PASSWORD, None, "the password of the key, if it is encrypted"),
    Key("ssl.endpoint.identification.algorithm", STRING, "https", "https: the certificate of a broker must name its "
        "host; empty: any host is accepted"),
    Key("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "the versions of TLS"),
    Key("ssl.cipher.suites", LIST, (), "the cipher suites, by the names of Java or OpenSSL; empty: OpenSSL's choice"),
    Key("ssl.protocol", STRING, None, "without effect; ssl.enabled.protocols decides"),
)  # fmt: skip

_LOGIN: Final = "sasl.login."
_ENDPOINT: Final = "sasl.oauthbearer."
_KERBEROS: Final = "sasl.kerberos."
SASL: Final = (
    Key("sasl.mechanism", STRING, None, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"),
    Key("sasl.username", STRING, None, "the user name for PLAIN and SCRAM"),
    Key("sasl.password", PASSWORD, None, "the password for PLAIN and SCRAM"),
    Key("sasl.tokenauth", BOOL, False, "SCRAM: the name is the id of a delegation token, and the password its hmac in "
        "base64; in Java's sasl.jaas.config it is tokenauth=\"true\""),
    Key("sasl.jaas.config", PASSWORD, None, "the same, or a token's client id and secret, or a keytab, in Java's "
        "syntax; no class that it names is loaded"),
    Key("sasl.oauth.token.provider", OBJECT, None, "OAUTHBEARER: a function, or an object with a method `token`, that "
        "returns a token, or a token and its expiry in seconds since 1970; plain or `async`"),
    Key(f"{_ENDPOINT}token.endpoint.url", STRING, None, "OAUTHBEARER: the URL that returns a token for the client's id "
        "and secret"),
    Key(f"{_ENDPOINT}client.credentials.client.id", STRING, None, "the client's id at that URL"),
    Key(f"{_ENDPOINT}client.credentials.client.secret", PASSWORD, None, "the client's secret at that URL"),
    Key(f"{_ENDPOINT}scope", STRING, None, "the scope to ask for"),
    Key(f"{_LOGIN}connect.timeout.ms", INT, 10_000, "how long to wait for a connection to that URL", 1, MAX_LONG),
    Key(f"{_LOGIN}read.timeout.ms", INT, 10_000, "how long to wait for its answer", 1, MAX_LONG),
    Key(f"{_LOGIN}retry.backoff.ms", INT, 100, "the first wait before a retry there", 0, MAX_LONG),
    Key(f"{_LOGIN}retry.backoff.max.ms", INT, 10_000, "the longest wait before a retry there", 0, MAX_LONG),
    Key(f"{_LOGIN}refresh.window.factor", FLOAT, 0.8, "the part of a token's life after which the next one is fetched",
        0.5, 1.0),
    Key(f"{_LOGIN}refresh.window.jitter", FLOAT, 0.05, "the longest random delay of that, as a part of the lifetime",
        0.0, 0.25),
    Key(f"{_LOGIN}refresh.min.period.seconds", INT, 60, "the least time between two fetches of a token", 0, 900),
    Key(f"{_LOGIN}refresh.buffer.seconds", INT, 300, "the next token is fetched at least this long before the old one "
        "expires", 0, 3600),
    Key(f"{_KERBEROS}service.name", STRING, "kafka", "GSSAPI: the name of the broker's service, the first part of its "
        "principal"),
    Key(f"{_KERBEROS}keytab", STRING, None, "GSSAPI: the file with the client's key; without it, the credential cache "
        "that kinit fills"),
    Key(f"{_KERBEROS}principal", STRING, None, "GSSAPI: the client's principal; without it, the first principal of the "
        "keytab, or that of the cache"),
    *(Key(f"{_KERBEROS}{name}", STRING, None, "without effect; the library of Kerberos fetches tickets itself")
      for name in ("kinit.cmd", "min.time.before.relogin", "ticket.renew.jitter", "ticket.renew.window.factor")),
    *(Key(f"sasl.{name}", STRING, None, "without effect; the mechanism and the keys above decide")
      for name in ("login.class", "login.callback.handler.class", "client.callback.handler.class")),
)  # fmt: skip
FUNCTIONS: Final = frozenset({"sasl_oauth_token_provider"})
"""Settings that are functions, and might show a secret in their ``repr``."""
