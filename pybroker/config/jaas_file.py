"""Java's file of logins (``java.security.auth.login.config``), in which Kafka's users keep a section for ZooKeeper:

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="…";
    };
"""

from __future__ import annotations

import re
from typing import Final

from pyclient.security import jaas

_PIECE: Final = re.compile(
    r"""(?P<remark>//[^\n]*|/\*.*?\*/) | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | (?P<brace>[{}]) | .""",
    re.VERBOSE | re.DOTALL,
)


def section(text: str, name: str) -> jaas.LoginModule | None:
    """The login module of the section, None where there is no such section. Raises JaasError."""
    title, inside = "", ""
    is_inside = False
    for piece in _PIECE.finditer(text):
        part = " " if piece["remark"] else piece[0]
        if piece["brace"]:
            if is_inside is (part == "{"):
                raise jaas.JaasError("a section is `NAME { CLASS required …; };`")
            if is_inside and title.strip("; \t\r\n\"'") == name:
                return jaas.parse(inside)
            title, inside, is_inside = title if part == "{" else "", "", part == "{"
        elif is_inside:
            inside += part
        else:
            title += part
    if is_inside:
        raise jaas.JaasError("a section does not end with }")
    return None
