"""The asyncio face of the admin client, which is the one that does the work."""

from __future__ import annotations

from pyclient.admin.cluster import ClusterAdmin
from pyclient.admin.configs import Configs
from pyclient.admin.groups import Groups
from pyclient.admin.topics import Topics
from pyclient.admin.transactions import Transactions


class Admin(Topics, Configs, Groups, Transactions, ClusterAdmin):
    """Administers a cluster; Kafka's Admin in snake case.

    Methods that take several things return ``Results``, a mapping by thing, and raise the first
    error, or with ``check=False`` leave errors to the results.
    """
