"""Adapts Kafka's own clients, and its AdminClient through the tools that call it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.drivers.logins import Login
from conformance.security.base import PATIENCE_S, Acl, Administrator, Client, Refused
from harness.clients.jvm import Jvm
from harness.waiting import until
from harness.witnesses import used

TOOLS = "org.apache.kafka.tools"
RESOURCE = re.compile(r"resourceType=(\w+), name=(\S+), patternType=(\w+)")
ENTRY = re.compile(r"principal=(\S+), host=\*, operation=(\w+), permissionType=(\w+)")
RAISED = re.compile(r"(?:common\.errors\.)?(\w+Exception)")
#: The classes of Kafka's own errors; other classes only tell who wraps them.
WRAPPERS = {"KafkaException", "ExecutionException", "RuntimeException", "AdminCommandFailedException"}
KINDS = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}


class JavaClient(Client):
    refusals = {
        "topic": "TopicAuthorizationException",
        "group": "GroupAuthorizationException",
        "transactional id": "TransactionalIdAuthorizationException",
        "cluster": "ClusterAuthorizationException",
        "login": "SaslAuthenticationException",
    }
    _names = itertools.count(1)

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        with self._opened("producer", login, {"enable.idempotence": str(idempotent).lower()}) as on:
            self._ask("send", on, records=[[topic, None, None, value.decode()]])
            self._ask("flush", on)

    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        more = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        values: list[bytes] = []
        with self._opened("consumer", login, more) as on:
            self._ask("subscribe", on, topics=[topic])

            def come() -> bool:
                values.extend(row[4].encode() for row in self._ask("poll", on, timeout_ms=100))
                return len(values) >= count

            until(come, "the records", PATIENCE_S, 0)
            self._ask("commit", on)
        return values

    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        with self._opened("producer", login, {"transactional.id": transactional_id}) as on:
            self._ask("init", on)
            self._ask("begin", on)
            self._ask("send", on, records=[[topic, None, None, "x"]])
            self._ask("flush", on)
            self._ask("commit", on)

    def _ask(self, call: str, on: str, **arguments: Any) -> Any:
        answer = self._jvm.ask(call, on, **arguments)
        if answer.error is not None:
            names = [name for name in answer.error.errors if name not in WRAPPERS]
            raise Refused(names[0], answer.error)
        return answer.result

    @contextmanager
    def _opened(self, kind: str, login: Login, more: Mapping[str, str]) -> Iterator[str]:
        used("Java")
        on = f"guarded-{kind}-{next(self._names)}"
        self._ask(kind, on, **login.java(), **more)
        try:
            yield on
        finally:
            self._jvm.ask("close", on, timeout_ms=0)


class JavaAdministrator(Administrator):
    def __init__(self, jvm: Jvm, folder: Path) -> None:
        self._jvm = jvm
        self._file = folder / "administrator.properties"

    def create(self, login: Login, acls: Sequence[Acl]) -> None:
        for acl in acls:
            self._acls(login, "--add", *_words(acl))

    def describe(self, login: Login, kind: str, name: str) -> set[Acl]:
        matching = (KINDS[kind], name, "--resource-pattern-type", "match") if kind in KINDS else ("--cluster",)
        found: set[Acl] = set()
        for line in self._acls(login, "--list", *matching).splitlines():
            if pattern := RESOURCE.search(line):
                resource = pattern.groups()
            elif entry := ENTRY.search(line):
                principal, operation, permission = entry.groups()
                found.add(Acl._make((principal, operation, *resource, permission)))
        return found

    def delete(self, login: Login, acl: Acl) -> None:
        self._acls(login, "--remove", *_words(acl), "--force")

    def _acls(self, login: Login, *words: str) -> str:
        return self.tool(login, "AclCommand", *words)

    def tool(self, login: Login, name: str, *words: str) -> str:
        """Returns a tool's output.

        Raises:
            Refused: it prints an error of Kafka's.
        """
        self._file.write_text("".join(f"{key}={text}\n" for key, text in login.java().items()))
        where = ("--bootstrap-server", login.bootstrap, "--command-config", str(self._file))
        printed = self._jvm.tool(f"{TOOLS}.{name}", *where, *words)
        told = printed.output + printed.errors
        names = [found for found in RAISED.findall(told) if found not in WRAPPERS]
        if names:
            raise Refused(names[0], told)
        assert printed.code == 0, told
        return printed.output


def _words(acl: Acl) -> tuple[str, ...]:
    who = f"--{acl.permission.lower()}-principal"
    resource = ("--cluster",) if acl.kind == "CLUSTER" else (KINDS[acl.kind], acl.name)
    pattern = ("--resource-pattern-type", acl.pattern.lower())
    operation = "".join(word.capitalize() for word in acl.operation.split("_"))
    return who, acl.principal, "--operation", operation, *resource, *pattern
