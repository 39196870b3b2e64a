"""Brokers with a plain listener and one with TLS: ours and the real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.servers.brokers import Broker, OurBroker, RealKafka, free_port

PLAIN, TLS = "PLAINTEXT", "SSL"
COMMAND: Final = (sys.executable, "-m", "pybroker")


class Encrypted(Broker):
    """librdkafka uses the listener of ``protocol``, ``SSL`` at first."""

    def __init__(self, data_dir: Path, **config: str) -> None:
        super().__init__(data_dir, **config)
        self.protocol = TLS
        self.port = free_port()
        self.encrypted = f"{self.host}:{free_port()}"
        certificates = data_dir.with_name(f"{data_dir.name}-certificates")
        subprocess.run([*COMMAND, "tls", "create", certificates, self.host], check=True, capture_output=True)
        self.ca = certificates / "ca.pem"
        """The certificate that clients trust."""
        self.config |= {"ssl.keystore.location": str(certificates / "server.pem"), "ssl.keystore.type": "PEM"}

    @property
    def listeners(self) -> dict[str, str]:
        return super().listeners | {TLS: self.encrypted}

    @property
    def librdkafka(self) -> dict[str, str]:
        if self.protocol == PLAIN:
            return super().librdkafka
        return {"bootstrap.servers": self.encrypted, "security.protocol": TLS, "ssl.ca.location": str(self.ca)}


class EncryptedBroker(Encrypted, OurBroker):
    """Runs our broker with TLS."""


class EncryptedKafka(Encrypted, RealKafka):
    """Runs a real Kafka with TLS."""


ENCRYPTED: Final[Mapping[str, type[Encrypted]]] = {"ours": EncryptedBroker, "kafka": EncryptedKafka}
