"""A scripted broker on a separate thread, for commands, which block."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.protocol import AlterUserScramCredentials, DescribeUserScramCredentials
from pyclient.protocol.errors import ResourceNotFound

_Described = DescribeUserScramCredentials.Response.DescribeUserScramCredentialsResult
_Info = DescribeUserScramCredentials.Response.CredentialInfo
_Altered = AlterUserScramCredentials.Response.AlterUserScramCredentialsResult


@contextlib.contextmanager
def serving(prepare: Callable[[ScriptedBroker], object], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Starts a broker whose answers ``prepare`` has set, by TLS if ``tls`` is given. Returns its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    broker = ScriptedBroker(7, tls)
    prepare(broker)
    try:
        asyncio.run_coroutine_threadsafe(broker.__aenter__(), loop).result()
        yield broker.address
    finally:
        asyncio.run_coroutine_threadsafe(broker.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Users:
    """Iterations by user and mechanism; ``keys`` has the salted passwords."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.there: dict[str, dict[int, int]] = {}
        self.keys: dict[tuple[str, int], bytes] = {}
        broker.handlers[DescribeUserScramCredentials] = self._describe
        broker.handlers[AlterUserScramCredentials] = self._alter

    def _describe(self, request: Any, version: int) -> DescribeUserScramCredentials.Response:
        names = sorted(self.there) if request.users is None else [each.name for each in request.users]
        return DescribeUserScramCredentials.Response(results=[self._described(name) for name in names])

    def _described(self, name: str) -> _Described:
        if name not in self.there:
            return _Described(user=name, error_code=ResourceNotFound.code)
        infos = [_Info(mechanism=number, iterations=count) for number, count in sorted(self.there[name].items())]
        return _Described(user=name, credential_infos=infos)

    def _alter(self, request: Any, version: int) -> AlterUserScramCredentials.Response:
        rows = []
        for row in request.upsertions:
            self.there.setdefault(row.name, {})[row.mechanism] = row.iterations
            self.keys[row.name, row.mechanism] = bytes(row.salted_password)
            rows.append(_Altered(user=row.name))
        for row in request.deletions:
            known = self.there.get(row.name, {})
            rows.append(_Altered(user=row.name, error_code=0 if known.pop(row.mechanism, 0) else ResourceNotFound.code))
            if not known:
                self.there.pop(row.name, None)
        return AlterUserScramCredentials.Response(results=rows)
