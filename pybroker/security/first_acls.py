"""ACLs that a start adds. Each is a JSON list, as ``pybroker.acl`` writes it."""

from __future__ import annotations

import json
from typing import Final

from pybroker.config import ConfigError
from pybroker.security.acls import AccessControlEntry, AclBinding, ResourcePattern
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import InvalidRequest

OPTION: Final = "--add-acl"


def parse(text: str) -> AclBinding:
    """Parses one ACL. Raises ConfigError."""
    try:
        kind, name, pattern, principal, host, operation, permission = json.loads(text)
        binding = AclBinding(
            ResourcePattern(AclResourceType[kind], name, PatternType[pattern]),
            AccessControlEntry(principal, host, AclOperation[operation], AclPermissionType[permission]),
        )
        binding.check()
    except (ValueError, KeyError, TypeError, InvalidRequest) as error:
        raise ConfigError(f"{OPTION} {text}: {type(error).__name__}: {error}") from error
    return binding
