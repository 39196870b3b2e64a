"""The keys that say how connections are secured; and the names that other clients have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyclient.config.key import LIST, PASSWORD, STRING, Key

PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", "how connections are secured: SSL is TLS",
                      words=("PLAINTEXT", "SSL"))

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
    Key("ssl.key.password", PASSWORD, None, "the password of the key, where it is encrypted"),
    Key("ssl.endpoint.identification.algorithm", STRING, "https", "https: the certificate of a broker must name its "
        "host; empty: any host will do"),
    Key("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "the versions of TLS"),
    Key("ssl.cipher.suites", LIST, (), "the cipher suites, by the names of Java or OpenSSL; empty: OpenSSL's choice"),
    Key("ssl.protocol", STRING, None, "without effect; ssl.enabled.protocols decides"),
)  # fmt: skip

_KEY_FILE: Final = "ssl.keystore.location, a PEM of key and certificates, or ssl.keystore.key as text"
_CHAIN_FILE: Final = "ssl.keystore.location, a PEM of key and certificates, or ssl.keystore.certificate.chain as text"
_CA_FILE: Final = "ssl.truststore.location, or ssl.truststore.certificates as text"
_HOST_NAMES: Final = "ssl.endpoint.identification.algorithm: empty does not check host names"
FOREIGN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ssl.ca.location", "ssl.cafile"), _CA_FILE),
    **dict.fromkeys(("ssl.certificate.location", "ssl.certfile"), _CHAIN_FILE),
    **dict.fromkeys(("ssl.key.location", "ssl.keyfile"), _KEY_FILE),
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.check.hostname": _HOST_NAMES,
    "enable.ssl.certificate.verification": f"{_HOST_NAMES}, but certificates are always checked",
    "ssl.context": "the keys ssl.*, such as ssl.truststore.location",
}
"""What the keys of librdkafka, kafka-python and aiokafka are here."""
