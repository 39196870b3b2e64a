"""Runs a Kerberos key distribution center (MIT's, from Debian) on loopback, in a folder, with its own principals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.servers.brokers import free_port
from harness.waiting import until

REALM: Final = "EXAMPLE.COM"
SERVICE: Final = "kafka"
#: Debian puts the programs here.
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARY: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1

[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
CENTER: Final = """\
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        kdc_listen = 127.0.0.1:{port}
        kdc_tcp_listen = 127.0.0.1:{port}
        max_life = 1h
    }}

[logging]
    kdc = FILE:{folder}/kdc.log
"""


class Kdc:
    """The key distribution center. ``environment`` is for programs that use it; Java takes ``krb5_conf`` too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.krb5_conf = folder / "krb5.conf"
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5RCACHENAME": f"file2:{folder}/replays",
            "KRB5CCNAME": f"{folder}/no.cache",
        }
        self._principals: set[str] = set()
        self._own = {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(folder / "kdc.conf"), "PATH": PATH}

    def make(self, port: int) -> None:
        """Writes the center's files."""
        self.folder.mkdir()
        self.krb5_conf.write_text(LIBRARY.format(realm=REALM, port=port))
        (self.folder / "kdc.conf").write_text(CENTER.format(realm=REALM, port=port, folder=self.folder))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the center's process and waits until it serves."""
        process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=self._own)
        log = self.folder / "kdc.log"
        until(lambda: log.exists() and "commencing operation" in log.read_text(), "the KDC")
        return process

    def keytab(self, principal: str) -> Path:
        """Writes a keytab with a new key of a principal, which it creates if necessary."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        if principal not in self._principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._principals.add(principal)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def renew_key(self, principal: str) -> None:
        """Invalidates the earlier keytabs."""
        self._run("kadmin.local", "-r", REALM, "cpw", "-randkey", principal)

    def cache(self, principal: str, keytab: Path) -> Path:
        """Writes a credential cache with a ticket of the principal, as kinit does."""
        path = self.folder / f"{principal}.cache"
        self._run("kinit", "-k", "-t", str(keytab), "-c", str(path), principal)
        return path

    def _run(self, *words: str) -> None:
        subprocess.run(words, env=self._own, check=True, capture_output=True)


@contextmanager
def serving(folder: Path) -> Iterator[Kdc]:
    """Runs a center until the end of the block."""
    kdc = Kdc(folder)
    kdc.make(free_port())
    process = kdc.start()
    try:
        yield kdc
    finally:
        process.terminate()
        process.wait()
