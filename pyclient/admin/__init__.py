"""The admin client, blocking; ``pyclient.aio.Admin`` is the same on asyncio.

    with Admin("localhost:9092") as admin:
        admin.create_topics("flights", num_partitions=3, configs={"retention.ms": "60000"})
        admin.list_offsets({TopicPartition("flights", 0): OffsetSpec.LATEST})
"""

from __future__ import annotations

from pyclient.admin.blocking import Admin
from pyclient.admin.results import Results
from pyclient.admin.security_types import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    DelegationToken,
    ResourcePattern,
    ResourcePatternFilter,
)
from pyclient.admin.types import (
    AlterConfigOp,
    AlterOp,
    ConfigEntry,
    ConfigResource,
    Election,
    MemberToRemove,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UpgradeType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

__all__ = [
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "AlterConfigOp",
    "AlterOp",
    "ClientQuotaEntity",
    "ClientQuotaFilterComponent",
    "ConfigEntry",
    "ConfigResource",
    "DelegationToken",
    "Election",
    "MemberToRemove",
    "NewTopic",
    "OffsetSpec",
    "PatternType",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "Results",
    "ScramCredentialInfo",
    "ScramMechanism",
    "UpgradeType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
