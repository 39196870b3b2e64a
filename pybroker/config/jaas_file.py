"""Reads Java's login file (``java.security.auth.login.config``). Users of Kafka have a section for ZooKeeper there:

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
    """Returns the login module of the section, None if there is no such section. Raises JaasError."""
    title, inside = "", ""
    is_inside = False
    for piece in _PIECE.finditer(text):
        part = " " if piece["remark"] else piece[0]
        if piece["brace"]:
            if is_inside is (part == "{"):
                raise jaas.JaasError("a section must be `NAME { CLASS required …; };`")
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
