"""The asyncio admin client, which does the work of the blocking one too."""

from __future__ import annotations

from pyclient.admin.acls import Acls
from pyclient.admin.cluster import ClusterAdmin
from pyclient.admin.configs import Configs
from pyclient.admin.groups import Groups
from pyclient.admin.quotas import Quotas
from pyclient.admin.tokens import Tokens
from pyclient.admin.topics import Topics
from pyclient.admin.transactions import Transactions
from pyclient.admin.users import Users
from pyclient.other_names import OF_ADMIN, ON_A_LOOP, knows
from pyclient.public_names import public


@public
@knows({**OF_ADMIN, **ON_A_LOOP})
class Admin(Topics, Configs, Groups, Transactions, Users, Acls, Quotas, Tokens, ClusterAdmin):
    """Administers a cluster, like Kafka's Admin with names in snake case.

    A method that takes several items returns ``Results``, a mapping by item, and raises the first error. With
    ``check=False`` it raises none, and the results contain the errors.
    """
