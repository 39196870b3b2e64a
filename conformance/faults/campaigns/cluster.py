"""The campaign of a cluster: every client that we have, on three brokers that fail, checked to the last record.

The loads are our SDK's writers, readers and groups (``sdk_load``). Transactions and consume-transform-produce run on
librdkafka, aiokafka, Java and our SDK (``transaction_load``). A plain idempotent writer and a group of librdkafka, and
a client that only commits offsets, join them. ``cluster_chaos`` makes the faults. The brokers use an embedded store
(``--place processes``: one supervisor and its processes) or a ZooKeeper of three servers (``--place machines``). The
latter have no supervisor, and run in their own network namespaces where this machine allows it.

At the end no acked record is lost, doubled, reordered or elsewhere. No reader got a record that is not there. Every
transaction is there entirely or not at all, no committed offset went back, and the replicas hold the same bytes. The
campaign ends when both its number of faults and its time are reached; clients write until then::

    python -m conformance.faults.campaigns.cluster --minutes 60 --faults 500 --records 10000000 \
        --report docs/faults.json

With ``--secured`` the brokers are ``secured`` everywhere. Their certificate changes now and then. The administrator
grants and revokes the guests' right to write all the time (``guests``). No guest may write without that right, and no
broker may refuse a guest with it.

A seed (``--seed``) repeats the faults, but not the timing of the processes between them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from conformance.faults.campaigns.chaos import frozen
from conformance.faults.campaigns.cluster_chaos import HANGING, STORE, ClusterChaos, MachinesChaos, SupervisorChaos
from conformance.faults.checkers import replicas
from conformance.faults.checkers.history import Anomaly
from conformance.faults.checkers.silence import Silence
from conformance.faults.loads import sdk_load, transaction_load
from conformance.faults.loads.cluster_load import Foreign
from conformance.faults.loads.cluster_target import EAGER, PATIENCE_S, ClusterTarget
from conformance.faults.loads.guests import Guests
from conformance.faults.loads.hostile import Hostile
from conformance.faults.loads.sdk_load import AHEAD, Streams
from conformance.faults.loads.transaction_load import ENDED, Application, Transactions
from conformance.faults.means.disks import Disks
from conformance.faults.means.secured import Secured, running
from harness.faults import network
from harness.servers.clusters import Cluster, consecutive_ports
from harness.servers.ensemble import Ensemble
from harness.servers.machines import Machines

STUCK = "stuck"
HOST = "127.0.0.1"
Faults = dict[str, Callable[[], None]]


@dataclass(frozen=True)
class Plan:
    """The extent of a campaign. ``writers``, ``applications``: as in ``transaction_load``."""

    records: int
    faults: int
    minutes: float = 0.0
    writers: Sequence[str] = ("confluent", "pyclient")
    applications: Sequence[Application] = (Application("confluent", "classic", 1),)
    streams: sdk_load.Plan | None = None
    #: Names of the faults in a fixed order; by default the seed draws them.
    script: Sequence[str] = ()
    #: Says whether disks fill up now and then; they are in memory then.
    disks: bool = False
    #: Says whether brokers authenticate and authorize their clients.
    secured: bool = False


@dataclass
class Report:
    """The results of a campaign. ``as_json`` holds those that are kept."""

    seed: int
    place: str
    began: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    read_back: Counter[str] = field(default_factory=Counter)
    #: Consumers commit these offsets outside of transactions.
    commits: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    hiccups: Counter[str] = field(default_factory=Counter)
    #: The attempts of guests, if there are guests.
    guests: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    """The reasons why transactional clients were given up."""
    hung: list[str] = field(default_factory=list)
    #: Seconds from a fault's end to the next acks in every load, by fault.
    pauses_s: dict[str, list[float]] = field(default_factory=dict)
    #: Seconds from a fault's end until every replica was in sync, by fault, if the campaign waited for that.
    heals_s: dict[str, list[float]] = field(default_factory=dict)
    #: Each broker's longest silence, and its number of answers.
    silences_s: dict[int, float] = field(default_factory=dict)
    answers: dict[int, int] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)

    def as_json(self) -> str:
        """Returns everything as JSON values."""
        kinds = Counter(anomaly.kind for anomaly in self.anomalies)
        found = {
            "seed": self.seed,
            "place": self.place,
            "began": self.began,
            "seconds": round(self.seconds),
            "python": platform.python_version(),
            "faults": dict(sorted(self.faults.items())),
            "faults_in_all": self.faults.total(),
            "kinds_of_faults": len(self.faults),
            "acked": dict(sorted(self.acked.items())),
            "acked_in_all": self.acked.total(),
            "read_back": dict(sorted(self.read_back.items())),
            "commits_of_offsets": dict(sorted(self.commits.items())),
            "transactions": dict(sorted(self.transactions.items())),
            "guests": dict(sorted(self.guests.items())),
            "errors_that_clients_were_told": dict(sorted(self.hiccups.items())),
            "why_transactional_clients_were_given_up": dict(sorted(self.given_up.items())),
            "clients_that_hung_in_their_library": self.hung,
            "seconds_from_a_fault_to_acks_in_every_load": _spread(self.pauses_s),
            "seconds_from_a_fault_until_all_is_in_sync": _spread(self.heals_s),
            "longest_silence_of_each_loop_in_seconds": {id: round(s, 2) for id, s in self.silences_s.items()},
            "answers_that_were_timed_for_it": self.answers,
            "anomalies": dict(sorted(kinds.items())),
            "anomalies_in_all": len(self.anomalies),
            "examples": [str(anomaly) for anomaly in self.anomalies[:30]],
        }
        return json.dumps(found, indent=2) + "\n"

    def __str__(self) -> str:
        return self.as_json()


def _spread(seconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Returns the median and the maximum of each."""
    found = {name: sorted(row) for name, row in sorted(seconds.items())}
    return {name: {"median": round(row[len(row) // 2], 2), "most": round(row[-1], 2)} for name, row in found.items()}


class Campaign:
    """Strikes running brokers with faults while loads run."""

    def __init__(
        self,
        target: ClusterTarget,
        chaos: Callable[[Faults], ClusterChaos],
        place: str,
        seed: int,
        plan: Plan,
        folder: Path,
        secured: Secured | None = None,
    ) -> None:
        """Gives ``chaos`` the faults of clients."""
        self.target = target
        self.plan = plan
        self.report = Report(seed, place)
        streams = plan.streams or sdk_load.Plan(plan.records, plan.faults)
        folder.mkdir(parents=True, exist_ok=True)
        self.streams = Streams(target, target.bootstrap, seed, streams, folder)
        writing = transaction_load.Plan(0, 0, plan.writers, plan.applications)
        self.transactions = Transactions(target, seed, writing, folder)
        self.foreign = Foreign(target, seed)
        self.guests = [Guests(target, secured, seed)] if secured else []
        self.permitted = 0.0
        self.silence = Silence(target.brokers)
        self.random = random.Random(seed)
        self.hostile = Hostile(target, self.random)
        others = self._faults_of_clients() | self.hostile.faults
        if secured:
            others["changes of certificates"] = partial(secured.change, target.brokers, self.random)
        self.chaos = chaos(others)
        self.chaos.excused, self.chaos.harmless = self.silence.excused, set(self.hostile.faults)

    def _faults_of_clients(self) -> Faults:
        return {
            "kills of clients": self.streams.kill_one,
            "SIGSTOPs of clients": self._freeze_client,
            "kills of transactional clients": self.transactions.kill_worker,
            "zombies": self.transactions.make_zombie,
        }

    def _freeze_client(self) -> None:
        with frozen(self.chaos.random.choice(self.streams.pids())):
            time.sleep(self.chaos.random.random() * 4.0)

    def run(self) -> Report:
        """Runs the plan, then checks everything; ends all clients that it has started."""
        began = time.monotonic()
        try:
            self._begin()
            self._strike_all(began)
            self._end()
            self._check()
        except AssertionError as error:  # Nothing is compared then: required events do not happen.
            self.report.faults = self.chaos.counts
            self.report.anomalies.append(Anomaly(STUCK, f"{error}\n{error.__cause__ or ''}"))
            traceback.print_exc()
        finally:
            self._tell_silence()
            self.foreign.close()
            for guests in self.guests:
                guests.stopping.set()
            self.streams.close()
            self.transactions.close()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _tell_silence(self) -> None:
        self.silence.end()
        self.report.silences_s = self.silence.longest_s
        self.report.answers = self.silence.answers
        self.report.anomalies += self.silence.anomalies

    def keep_logs(self, folder: Path) -> None:
        """Copies the brokers' files, which are deleted with the brokers; skips a file that disappears meanwhile."""
        for broker in self.target.brokers.ids:
            with contextlib.suppress(shutil.Error):
                shutil.copytree(self.target.brokers.log_dir(broker), folder / f"broker-{broker}", dirs_exist_ok=True)

    def _begin(self) -> None:
        self.streams.begin()
        self.transactions.begin()
        self.foreign.begin()
        for guests in self.guests:
            guests.begin()
        self.hostile.begin()
        self.silence.begin()

    def _strike_all(self, began: float) -> None:
        turn = 0
        while turn < self.plan.faults or time.monotonic() - began < self.plan.minutes * 60:
            self._permit(turn, time.monotonic() - began)
            name = self.chaos.strike(self.plan.script[turn] if self.plan.script else "")
            print(f"{time.monotonic() - began:.0f} s: {name} ({turn})", file=sys.stderr, flush=True)
            self._await_progress(name)
            if self.chaos.random.random() < 0.5:
                self.target.heal()
                self.report.heals_s.setdefault(name, []).append(time.monotonic() - self.chaos.healed)
            turn += 1

    def _permit(self, turn: int, elapsed_s: float) -> None:
        """Lets the SDK's writers advance as far as the campaign, and a little further."""
        part = (turn + 2) / (self.plan.faults + 2)
        if self.plan.minutes:
            part = min(part, elapsed_s / (self.plan.minutes * 60))
        self._permit_up_to(self.plan.records * part)

    def _permit_up_to(self, records: float) -> None:
        self.permitted = max(self.permitted, records)
        self.streams.permit(self.permitted)

    def _await_progress(self, name: str) -> None:
        """Waits until every load has advanced: the SDK's, the transactions', the foreign clients'."""
        before = self._done()
        self._permit_up_to(before["streams"] + AHEAD)  # A writer that waits at the gate would count as stuck.
        deadline = time.monotonic() + PATIENCE_S
        while not self._all_moved(before):
            assert time.monotonic() < deadline, f"no acks in every load after {name}: {before}, now {self._done()}"
            time.sleep(0.05)
        self.report.pauses_s.setdefault(name, []).append(time.monotonic() - self.chaos.healed)

    def _done(self) -> dict[str, int]:
        loads = {"streams": self.streams.acked(), "transactions": self.transactions.committed()}
        return loads | self.foreign.done() | {guests.name: guests.done for guests in self.guests}

    def _all_moved(self, before: dict[str, int]) -> bool:
        self.transactions.revive()
        self.foreign.look()
        for guests in self.guests:
            guests.look()
        now = self._done()
        self.report.anomalies += self.foreign.check_offsets()
        if self.streams.all_written():
            before["streams"] = -1
        return all(now[load] > count for load, count in before.items())

    def _end(self) -> None:
        self.target.heal()
        self.silence.end()
        self.streams.end()
        self.transactions.end()
        self.foreign.end()
        for guests in self.guests:
            guests.stop()

    def _check(self) -> None:
        report = self.report
        self.target.crash()
        written, done = self.streams.check(), self.transactions.check()
        report.faults = self.chaos.counts
        report.hiccups = written.hiccups + Counter({ENDED: done.faults[ENDED]}) + self.foreign.reader.told
        report.hung, report.given_up = done.hung, done.told
        commits = self.foreign.done()
        report.acked = Counter({"sdk": written.acked, "librdkafka": commits.pop("librdkafka")})
        report.acked["in transactions"] = done.records
        report.commits = Counter(commits)
        foreign, found = self.foreign.check()
        report.read_back = Counter({"sdk": written.records, "in transactions": done.records, "librdkafka": foreign})
        report.transactions = done.words
        report.anomalies += [*written.anomalies, *done.anomalies, *found]
        for guests in self.guests:
            report.read_back[guests.name], found = guests.check()
            report.guests, report.anomalies = guests.counts, [*report.anomalies, *found]
        self.target.heal()
        self.target.brokers.stop()
        report.anomalies += replicas.check_all({id: self.target.brokers.log_dirs(id) for id in self.target.brokers.ids})


@contextlib.contextmanager
def on_processes(folder: Path, seed: int, plan: Plan, **config: object) -> Iterator[Campaign]:
    """Runs a campaign on brokers under one supervisor, with its store."""
    secured = Secured(folder / "secured") if plan.secured else None
    own = secured.config(HOST) if secured else {}
    cluster = Cluster(folder / "data", 3, None, **{**EAGER, **own, **config})
    cluster.ports = {1: consecutive_ports(3)}
    cluster.environment |= HANGING
    chance = random.Random(seed)
    paths = {STORE: cluster.data_dir} | {broker: cluster.log_dir(broker) for broker in cluster.ids}
    with Disks(paths if plan.disks else {}) as disks, running(cluster, secured):
        target = ClusterTarget(cluster)

        def chaos(others: Faults) -> ClusterChaos:
            return SupervisorChaos(target, cluster, disks, chance, others)

        yield Campaign(target, chaos, "processes", seed, plan, folder / "clients", secured)


@contextlib.contextmanager
def on_machines(folder: Path, seed: int, plan: Plan, **config: object) -> Iterator[Campaign]:
    """Runs a campaign on brokers without a supervisor, with a ZooKeeper of three servers."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as opened:
        net = opened.enter_context(network.Network([1, 2, 3])) if network.is_possible() else None
        host = net.address(network.SERVICES) if net else "127.0.0.1"
        servers = opened.enter_context(Ensemble(folder, 3, host))
        machines = Machines(folder / "data", f"{servers.hosts}/kafka", 3, net, disks=2, **{**EAGER, **config})
        machines.environment |= HANGING
        secured = None
        if plan.secured:
            secured = Secured(folder / "secured", {member.host for member in machines.members.values()})
            for member in machines.members.values():
                member.configure(**secured.config(*member.address))
        opened.enter_context(running(machines, secured))
        target = ClusterTarget(machines)

        def chaos(others: Faults) -> ClusterChaos:
            return MachinesChaos(target, machines, servers, chance, others)

        yield Campaign(target, chaos, "machines", seed, plan, folder / "clients", secured)


PLACES = {"processes": on_processes, "machines": on_machines}


def long_plan(records: int, faults: int, minutes: float, drivers: Sequence[str], *, secured: bool = False) -> Plan:
    """Plans a writer and an application for each client."""
    known = {"confluent": "classic", "aiokafka": "manual", "java": "consumer", "pyclient": "consumer"}
    applications = [Application(driver, known[driver], 1) for driver in drivers]
    return Plan(records, faults, minutes, drivers, applications, disks=True, secured=secured)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="the campaign of a cluster under faults")
    parser.add_argument("--place", choices=sorted(PLACES), default="processes")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--secured", action="store_true", help="SASL_SSL on all listeners, an authorizer, and guests")
    parser.add_argument("--only", help="faults by their names, separated by commas, instead of all")
    parser.add_argument("--drivers", default="confluent,aiokafka,java,pyclient")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--report", type=Path, help="writes the report, JSON, here too")
    parser.add_argument("--folder", type=Path, help="keeps journals here, and of a run with anomalies the logs")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {chosen.seed}", file=sys.stderr, flush=True)
    drivers = chosen.drivers.split(",")
    plan = long_plan(chosen.records, chosen.faults, chosen.minutes, drivers, secured=chosen.secured)
    # Brokers that are killed while they write leave files that appear after the folder was listed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with PLACES[chosen.place](folder, chosen.seed, plan) as campaign:
            if chosen.only:
                kinds = chosen.only.split(",")
                campaign.chaos.faults = {kind: campaign.chaos.faults[kind] for kind in kinds}
            report = campaign.run()
            if report.anomalies and chosen.folder:
                campaign.keep_logs(folder / "logs")
    if chosen.report:
        chosen.report.write_text(report.as_json())
    print(report.as_json())
    return bool(report.anomalies)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
