"""The blocking admin client: each method runs the asynchronous one on the client's own loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from inspect import signature
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from cy.seconds import seconds
from pyclient.admin import asynchronous
from pyclient.core.closed import closed
from pyclient.core.threads.runner import Runner
from pyclient.errors import ClientClosed
from pyclient.other_names import BLOCKING, OF_ADMIN, knows

P = ParamSpec("P")
R = TypeVar("R")
_Async = asynchronous.Admin


def _blocking(
    method: Callable[Concatenate[asynchronous.Admin, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Admin, P], R]:
    """Returns a blocking version of the method; Ctrl-C ends the wait and the work."""

    names = list(signature(method).parameters)[1:]
    place = names.index("timeout") if "timeout" in names else len(names)

    def call(self: Admin, /, *arguments: P.args, **keywords: P.kwargs) -> R:
        given: Any = arguments[place] if len(arguments) > place else keywords.get("timeout")
        within = self._timeout if given is None else given
        return self._runner.run(method(self._admin, *arguments, **keywords), within=within)

    functools.update_wrapper(call, method)
    return call


@knows({**OF_ADMIN, **BLOCKING})
class Admin:
    """Administers a cluster, like Kafka's Admin with names in snake case. Any thread may call it.

    A method that takes several items returns ``Results``, a mapping by item, and raises the first error. With
    ``check=False`` it raises none, and the results contain the errors.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str] | None = None,
        /,
        config: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Takes the settings of ``pyclient.config.ADMIN``, with ``_`` or ``.``. Connects on the first request. Raises
        ConfigError.
        """
        self._closed = False
        self._runner = Runner("pyclient.Admin")
        try:
            self._admin = self._runner.run(_make(bootstrap_servers, config, settings))
            self._runner.closed = functools.partial(closed, self._admin._config)
            self._timeout: float = self._admin._timeout
        except BaseException:
            self._closed = True
            self._runner.stop()
            raise

    connect = _blocking(_Async.connect)

    create_topics = _blocking(_Async.create_topics)
    delete_topics = _blocking(_Async.delete_topics)
    create_partitions = _blocking(_Async.create_partitions)
    list_topics = _blocking(_Async.list_topics)
    describe_topics = _blocking(_Async.describe_topics)
    delete_records = _blocking(_Async.delete_records)
    list_offsets = _blocking(_Async.list_offsets)

    describe_configs = _blocking(_Async.describe_configs)
    incremental_alter_configs = _blocking(_Async.incremental_alter_configs)
    list_config_resources = _blocking(_Async.list_config_resources)

    list_groups = _blocking(_Async.list_groups)
    list_consumer_groups = _blocking(_Async.list_consumer_groups)
    describe_consumer_groups = _blocking(_Async.describe_consumer_groups)
    delete_consumer_groups = _blocking(_Async.delete_consumer_groups)
    remove_members_from_consumer_group = _blocking(_Async.remove_members_from_consumer_group)
    list_consumer_group_offsets = _blocking(_Async.list_consumer_group_offsets)
    list_offsets_of_consumer_groups = _blocking(_Async.list_offsets_of_consumer_groups)
    alter_consumer_group_offsets = _blocking(_Async.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _blocking(_Async.delete_consumer_group_offsets)

    list_transactions = _blocking(_Async.list_transactions)
    describe_transactions = _blocking(_Async.describe_transactions)
    describe_producers = _blocking(_Async.describe_producers)
    abort_transaction = _blocking(_Async.abort_transaction)
    end_transactions = _blocking(_Async.end_transactions)
    fence_producers = _blocking(_Async.fence_producers)
    force_terminate_transaction = _blocking(_Async.force_terminate_transaction)

    describe_user_scram_credentials = _blocking(_Async.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(_Async.alter_user_scram_credentials)

    describe_acls = _blocking(_Async.describe_acls)
    create_acls = _blocking(_Async.create_acls)
    delete_acls = _blocking(_Async.delete_acls)

    describe_client_quotas = _blocking(_Async.describe_client_quotas)
    alter_client_quotas = _blocking(_Async.alter_client_quotas)

    create_delegation_token = _blocking(_Async.create_delegation_token)
    renew_delegation_token = _blocking(_Async.renew_delegation_token)
    expire_delegation_token = _blocking(_Async.expire_delegation_token)
    describe_delegation_tokens = _blocking(_Async.describe_delegation_tokens)

    describe_cluster = _blocking(_Async.describe_cluster)
    api_versions = _blocking(_Async.api_versions)
    describe_features = _blocking(_Async.describe_features)
    update_features = _blocking(_Async.update_features)
    describe_log_dirs = _blocking(_Async.describe_log_dirs)
    alter_replica_log_dirs = _blocking(_Async.alter_replica_log_dirs)
    elect_leaders = _blocking(_Async.elect_leaders)
    alter_partition_reassignments = _blocking(_Async.alter_partition_reassignments)
    list_partition_reassignments = _blocking(_Async.list_partition_reassignments)

    def close(self, timeout: float = 0.0) -> None:
        """Closes the connections and ends the thread. Waiting calls fail with ClientClosed. A second call does nothing.

        On the client's own thread it closes nothing and raises RuntimeError.
        """
        seconds(timeout)
        if not self._runner.is_running:
            self._closed = True
            return
        self._runner.before_wait()
        self._closed = True
        with self._runner.closing() as is_first:
            if is_first:
                try:
                    with suppress(ClientClosed):  # another thread has just closed it
                        self._runner.run(self._admin.close(timeout), within=timeout)
                finally:
                    self._runner.stop()

    def __repr__(self) -> str:
        if not hasattr(self, "_admin"):
            return f"<{type(self).__name__} whose constructor failed>"
        return self._admin._shown(self._closed)

    def __del__(self) -> None:
        if hasattr(self, "_admin") and not self._closed:
            self._runner.abandon()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def _make(
    bootstrap_servers: Any, config: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> asynchronous.Admin:
    admin = asynchronous.Admin(bootstrap_servers, config, **settings)
    admin.unclosed.detach()
    return admin
