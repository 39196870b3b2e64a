"""The admin client, blocking; ``pyclient.aio.Admin`` is the same on asyncio.

    with Admin("localhost:9092") as admin:
        admin.create_topics("flights", num_partitions=3, configs={"retention.ms": "60000"})
        admin.list_offsets({TopicPartition("flights", 0): OffsetSpec.LATEST})
"""

from __future__ import annotations

from pyclient.admin.blocking import Admin
from pyclient.admin.results import Results
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

__all__ = [
    "Admin",
    "AlterConfigOp",
    "AlterOp",
    "ConfigEntry",
    "ConfigResource",
    "Election",
    "MemberToRemove",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "Results",
    "ScramCredentialInfo",
    "ScramMechanism",
    "UpgradeType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
