"""Guests: clients without rights, and an administrator who grants and revokes a right while they write."""

from __future__ import annotations

import asyncio
from typing import Any

from cy.batch import Builder
from proofs.simulator.clients.client import Client
from proofs.simulator.clients.writers import NOW_MS, PAUSE_S, VERSION, error_of, request_of
from proofs.simulator.oracle.history import History
from proofs.simulator.oracle.rights import Guest, Step
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import CreateAcls, DeleteAcls, errors
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

ACLS_VERSION = 3
GIVE_UP_S = 6.0
ACL: dict[str, Any] = {"host": "*", "operation": AclOperation.WRITE, "permission_type": AclPermissionType.ALLOW}


class Guests:
    """Guests write one after the other, each with a name of its own, while their right comes and goes."""

    def __init__(self, guest: Client, administrator: Client, history: History, tp: TopicPartition) -> None:
        self.client = guest
        self.administrator = administrator
        self.history = history
        self.tp = tp
        self.past: list[Guest] = []
        self.refused = 0
        self.served = 0
        self._number = 0
        self._is_over = False

    def start(self, count: int, pause_s: float) -> list[asyncio.Task[None]]:
        """Starts an administrator of that many guests, and the guests."""
        inviting = self.administrator.loop.start(self._invite(count, pause_s))
        return [inviting, self.client.loop.start(self._write(pause_s))]

    async def _invite(self, count: int, pause_s: float) -> None:
        for number in range(count):
            guest = Guest(number, self.client.cluster)
            self.past.append(guest)
            await self._pause(pause_s)
            for step in (Step.GRANTING, Step.REVOKING):
                await self._change(guest, step)
                await self._pause(pause_s)
        self._is_over = True

    async def _pause(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s * self.administrator.rng.random())

    def _any_broker(self, client: Client) -> int:
        return client.rng.choice(list(client.cluster.machines))

    # The administrator

    async def _change(self, guest: Guest, step: Step) -> None:
        """Repeats the request until one broker confirms the change, or for a while."""
        client = self.administrator
        guest.begins(step)
        deadline = client.loop.time() + GIVE_UP_S
        while guest.step == step and client.loop.time() < deadline:
            broker = self._any_broker(client)
            try:
                await self._ask(broker, self._request(guest, step))
            except errors.KafkaError:
                guest.lost()
                await self._pause(PAUSE_S)
            else:
                client.cluster.note(f"broker {broker} has answered: {guest.principal} {step.name.lower()}")
                guest.answered(broker)

    def _request(self, guest: Guest, step: Step) -> Any:
        if step is Step.GRANTING:
            created = CreateAcls.Request.AclCreation(
                resource_type=AclResourceType.TOPIC, resource_name=self.tp.topic, principal=guest.principal, **ACL
            )
            return CreateAcls.Request(creations=[created])
        wanted = DeleteAcls.Request.DeleteAclsFilter(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=self.tp.topic,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=guest.principal,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        return DeleteAcls.Request(filters=[wanted])

    async def _ask(self, broker: int, request: Any) -> None:
        """Sends a request to a broker. Raises KafkaError."""
        timeout_s = self.history.settings.request_timeout_s
        response = await self.administrator.request(broker, request, ACLS_VERSION, timeout_s)
        [result] = response.results if isinstance(request, CreateAcls.Request) else response.filter_results
        if result.error_code:
            raise error_of(result.error_code)

    # The guest

    async def _write(self, pause_s: float) -> None:
        """Writes as the newest guest until the last one has gone."""
        while not self._is_over:
            await asyncio.sleep(self.client.rng.random() * pause_s / 4)
            guest = self.past[-1]
            if self.client.principal != guest.principal:
                self.client.become(guest.principal)
            try:
                await self._write_one(guest)
            except errors.KafkaError:
                self.history.given_up.add(guest.name)

    async def _write_one(self, guest: Guest) -> None:
        """Writes to the leader or to any broker. Each broker checks the right before it says who leads."""
        is_any = self.client.rng.random() < 0.5
        broker = self._any_broker(self.client) if is_any else self.client.leader(*self.tp)
        self._number += 1
        value = f"{guest.name}:{self._number}".encode()
        builder = Builder()
        builder.append(NOW_MS, None, value)
        self.history.sent(self.tp, (value,))
        step = guest.step
        must_be_refused, must_be_served = guest.must_be_refused(broker), guest.must_be_served(broker)
        timeout_s = self.history.settings.request_timeout_s
        request = request_of(self.tp, builder.build(), -1, int(timeout_s * 1000))
        response = await self.client.request(broker, request, VERSION, timeout_s)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == errors.TopicAuthorizationFailed.code:
            self.refused += 1
            self.history.refused[value] = guest
            if must_be_served and guest.step == step:
                raise guest.kept_out(f"broker {broker} has refused {value!r}")
            return
        self.served += 1
        if must_be_refused and guest.step == step:
            raise guest.let_in(f"broker {broker} has answered {value!r} with error {answer.error_code}")
        if answer.error_code:
            raise error_of(answer.error_code)
        self.history.acked(self.tp, (value,), answer.base_offset, is_first=True)

    # The end

    def undecided(self) -> str:
        """Names a guest whose right a broker misjudges, or returns ""."""
        for guest in self.past:
            wanted = {Step.GRANTED: True, Step.REVOKED: False}.get(guest.step)
            if wanted is None or not guest.is_certain:
                continue
            for broker in self.client.cluster.brokers():
                assert broker.authorizer is not None
                question = (guest.principal, "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC, self.tp.topic)
                if broker.authorizer.authorize(*question, is_told=False) is not wanted:
                    return f"broker {broker.node_id} does not know that {guest.principal} is {guest.step.name.lower()}"
        return ""
