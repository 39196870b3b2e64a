"""How a follower's log becomes its leader's: cut by epochs, in pieces, and where the leader's log starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.clock import SystemClock
from pybroker.log import replay
from pybroker.log.deep_cut import DeepCut
from pybroker.log.files import checkpoints
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.replication.following.fetchers import Fetchers
from pybroker.replication.following.fetchers import key_of as key
from pybroker.replication.following.follower import FIRST_PAUSE_MS, Followed
from pybroker.replication.following.leader_session import REST_MS
from pybroker.replication.tests.harness import NOW, Node, batch
from pybroker.replication.tests.pair import EPOCH, FOLLOWER, LEADER, Pair, contents, named


def write(log: Log, epoch: int, *what: bytes) -> None:
    for each in what:
        log.append_as_leader(batch(each), epoch, NOW)


def follow_until_quiet(pair: Pair, rounds: int = 10) -> None:
    for _ in range(rounds):
        pair.round()


def test_case_26_records_that_only_the_follower_has_are_truncated_by_epochs(pair: Pair) -> None:
    leader = pair.create()
    write(leader.log, 0, b"a", b"b")
    write(pair.log(), 0, b"a", b"b", b"lost", b"lost too")
    pair.log().update_high_watermark(1)
    pair.create(epoch=1)
    write(leader.log, 1, b"c")
    follow_until_quiet(pair)
    assert contents(pair.log()) == [b"a", b"b", b"c"]


def test_case_26_common_records_stay_although_the_high_watermark_lags(pair: Pair) -> None:
    leader = pair.create()
    for log in (leader.log, pair.log()):
        write(log, 0, b"a", b"b", b"c")
    assert pair.log().high_watermark == 0
    pair.create(epoch=1)
    pair.round()
    assert pair.log().log_end_offset == 3


def test_case_26_fast_elections_leave_no_divergence(pair: Pair) -> None:
    """The gap that KIP-279 closes: several epochs in a row that only one side has."""
    leader = pair.create()
    write(leader.log, 0, b"a")
    write(leader.log, 3, b"d", b"e")
    write(leader.log, 6, b"f")
    write(pair.log(), 0, b"a", b"b")
    write(pair.log(), 2, b"c")
    write(pair.log(), 4, b"x", b"y")
    pair.create(epoch=7)
    follow_until_quiet(pair)
    assert contents(pair.log()) == [b"a", b"d", b"e", b"f"]
    assert pair.log().leader_epochs.entries[:3] == leader.log.leader_epochs.entries[:3]


def test_case_26_an_answer_of_a_truncated_leader_counts_up_to_the_truncation(pair: Pair) -> None:
    """KAFKA-18723: when sendfile reads the file, it already has another leader's records."""
    leader = pair.create()
    write(leader.log, 0, b"a", b"longer than what is written in its place")
    number, request = pair.ask()
    answer = pair.answer(request)
    leader.log.truncate_to(1, NOW)
    write(leader.log, 1, b"x", b"y", b"z")
    pair.hear(number, answer)
    assert contents(pair.log()) == [b"a"]
    assert pair.log().leader_epochs.latest == 0


def test_a_follower_that_diverges_moves_no_high_watermark(pair: Pair) -> None:
    leader = pair.create()
    write(pair.log(), 0, b"x", b"y", b"z")
    pair.create(epoch=1)
    write(leader.log, 1, b"a")
    pair.round()
    assert leader.high_watermark == 0


def diverge_deep(pair: Pair, monkeypatch: pytest.MonkeyPatch, name: str = "t") -> None:
    """Gives the follower more records than its leader has, and no journal to undo them."""
    monkeypatch.setattr(replay, "PIECE_BATCHES", 10)
    leader = pair.create(name)
    for log in (leader.log, pair.log(name)):
        write(log, 0, *(b"%d" % number for number in range(50)))
    write(pair.log(name), 0, *(b"mine" for _ in range(50)))
    pair.log(name).producers._journal.begin_at(100)
    pair.create(name, epoch=1)
    write(leader.log, 1, b"next")


def test_a_deep_truncation_is_done_in_pieces_without_fetching(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: up to a whole segment was read in one turn of the event loop."""
    diverge_deep(pair, monkeypatch)
    pair.create("u")
    assert pair.round() == []
    pieces = 0
    while pair.log().log_end_offset == 100:
        assert pair.source.may_ask(pair.now_ms)
        pair.round()
        assert b"t" not in [topic.topic_id[:1] for topic in pair.requests[-1].topics]
        pair.now_ms = pair.source.next_due_ms() or 0
        cut = pair.source.go_on_cutting(pair.now_ms, NOW)
        pieces += 1
    assert pieces > 4
    assert cut is pair.follower.replicas.partitions.topics["t"][0]
    assert pair.source.go_on_cutting(pair.now_ms, NOW) is None
    pair.round()
    pair.round()
    assert contents(pair.log())[49:] == [b"49", b"next"]


def test_deep_truncations_take_turns(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t", "u"):
        diverge_deep(pair, monkeypatch, name)
    pair.round()
    worked: list[str] = []
    go_on = Followed.go_on_cutting

    def work(followed: Followed, wall_ms: int) -> bool:
        worked.append(followed.partition.topic_partition.topic)
        return go_on(followed, wall_ms)

    monkeypatch.setattr(Followed, "go_on_cutting", work)
    for _ in range(4):
        pair.now_ms = pair.source.next_due_ms() or 0
        pair.source.go_on_cutting(pair.now_ms, NOW)
    assert worked in (["t", "u"] * 2, ["u", "t"] * 2)


def test_a_failed_deep_truncation_is_repeated_after_the_leaders_next_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge_deep(pair, monkeypatch)
    pair.round()
    with monkeypatch.context() as patched:
        patched.setattr(DeepCut, "go_on", lambda *_: int("no number"))
        assert pair.source.go_on_cutting(pair.now_ms, NOW) is None
    assert not pair.source.may_ask(pair.now_ms)
    pair.now_ms += FIRST_PAUSE_MS
    assert pair.source.go_on_cutting(pair.now_ms, NOW) is None
    pair.round()
    while pair.source.go_on_cutting(pair.now_ms, NOW) is None:
        pair.now_ms += REST_MS
    assert pair.log().log_end_offset == 50


def test_a_deep_truncation_continues_by_itself(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    diverge_deep(pair, monkeypatch)
    fetchers, posts = fetching(pair.follower)
    request, done = posts[0]
    done(pair.sent(pair.answer(request)), None)
    pair.follower.until(lambda: len(posts) > 1)
    assert pair.log().log_end_offset == 50
    assert named(posts[1][0]) == [(0, 50)]
    fetchers.close()


def test_a_log_of_old_formats_is_truncated_before_the_first_fetch(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "PIECE_BATCHES", 10)
    log = pair.follower.create("t", replicas=(1, 2), epoch=0, leader=LEADER).log
    write(log, 0, *(b"%d" % number for number in range(100)))
    log.update_high_watermark(60)
    log.leader_epochs.truncate_from_end(0)
    log.producers._journal.begin_at(100)
    pair.source.follow(pair.follower.replicas.partitions.topics["t"][0], NOW)
    assert log.log_end_offset == 100
    assert not pair.source.may_ask(pair.now_ms)
    while pair.source.go_on_cutting(pair.now_ms, NOW) is None:
        pair.now_ms += REST_MS
    assert log.log_end_offset == 60
    assert pair.source.may_ask(pair.now_ms)


def test_a_follower_restarts_where_its_leader_has_deleted_everything(pair: Pair) -> None:
    leader = pair.create()
    write(pair.log(), 0, b"a")
    write(leader.log, 0, b"a", b"b", b"c")
    leader.log.update_high_watermark(3)
    leader.log.roll(NOW)
    leader.log.raise_log_start_offset(2)
    pair.create(epoch=1)
    follow_until_quiet(pair)
    assert contents(pair.log()) == [b"c"]
    assert pair.log().log_end_offset == 3


def test_a_follower_that_starts_over_with_many_segments_removes_them_in_pieces(pair: Pair) -> None:
    """The defect: all files of thousands of segments were renamed in one turn of the event loop."""
    leader = pair.create()
    for number in range(2 * REMOVED_PER_TURN + 1):
        write(pair.log(), 0, b"%d" % number)
        write(leader.log, 0, b"%d" % number)
        pair.log().roll(NOW)
    write(leader.log, 0, b"a", b"b")
    leader.log.update_high_watermark(leader.log.log_end_offset)
    leader.log.roll(NOW)
    leader.log.raise_log_start_offset(leader.log.log_end_offset - 1)
    pair.create(epoch=1)
    assert pair.round() == []
    counts = [len(pair.log().segments)]
    changed = None
    while changed is None:
        pair.now_ms = pair.source.next_due_ms() or 0
        changed = pair.source.go_on_cutting(pair.now_ms, NOW)
        counts.append(len(pair.log().segments))
    assert counts == [2 * REMOVED_PER_TURN + 2, REMOVED_PER_TURN + 2, 2, 1]
    follow_until_quiet(pair)
    assert contents(pair.log()) == [b"b"]


def test_a_follower_begins_at_a_batch_even_if_the_leaders_log_starts_within_it(pair: Pair) -> None:
    """DeleteRecords deletes up to any offset, but a leader sends whole batches."""
    leader = pair.create()
    leader.log.append_as_leader(batch(b"a", b"b", b"c"), 0, NOW)
    leader.log.update_high_watermark(3)
    leader.log.raise_log_start_offset(1)
    follow_until_quiet(pair, 3)
    log = pair.log()
    assert (log.log_start_offset, log.log_end_offset) == (1, 3)
    assert log.read(1, 1 << 20).read() == leader.log.read(1, 1 << 20).read()


def start_named(request: Any) -> int:
    """Returns the log start of the first partition in a request."""
    return int(request.topics[0].partitions[0].log_start_offset)


def test_a_log_start_is_named_when_it_survives_a_crash_and_not_before(pair: Pair) -> None:
    leader = pair.create()
    pair.leader.append(b"a", b"b", b"c")
    pair.round()
    pair.round()
    leader.log.raise_log_start_offset(2)
    pair.leader.replicas.purgatory.wake(leader)
    pair.round()
    assert pair.log().log_start_offset == 2
    pair.leader.append(b"d")
    pair.round()
    pair.round()
    assert start_named(pair.requests[-1]) == 0 == leader.low_watermark()
    (partition,) = pair.source.take_starts_to_keep()
    partition.log.keep_start()
    told = checkpoints.read_offsets(Storage(), pair.log().log_dir.file(checkpoints.LOG_START))
    assert told == {leader.topic_partition: 2}
    pair.source.on_kept(key(leader))
    pair.round()
    assert start_named(pair.requests[-1]) == 2
    assert leader.low_watermark() == 2


def test_an_answer_counts_even_if_the_log_start_has_changed_since(pair: Pair) -> None:
    """The leader assumes that the follower has received it, and does not repeat it."""
    leader = pair.create()
    pair.leader.append(b"a", b"b", b"c")
    pair.round()
    pair.round()
    leader.log.raise_log_start_offset(2)
    pair.leader.replicas.purgatory.wake(leader)
    pair.round()
    number, request = pair.ask()
    leader.log.raise_log_start_offset(3)
    pair.leader.replicas.purgatory.wake(leader)
    news = pair.answer(request)
    pair.keep_starts()
    second, request = pair.ask()
    assert start_named(request) == 2
    pair.hear(number, news)
    pair.hear(second, pair.answer(request))
    assert pair.log().log_start_offset == 3


def test_a_log_start_that_could_not_be_written_is_written_later(pair: Pair) -> None:
    leader = pair.create()
    pair.leader.append(b"a", b"b", b"c")
    pair.round()
    pair.round()
    leader.log.raise_log_start_offset(2)
    pair.leader.replicas.purgatory.wake(leader)
    pair.round()
    assert pair.source.take_starts_to_keep() == [pair.follower.replicas.partitions.topics["t"][0]]
    assert pair.source.take_starts_to_keep() == []
    pair.source.on_kept(key(leader))
    assert pair.source.take_starts_to_keep() == [pair.follower.replicas.partitions.topics["t"][0]]
    pair.source.drop(key(leader))
    pair.source.on_kept(key(leader))
    assert pair.source.take_starts_to_keep() == []


def test_the_leaders_log_start_is_the_followers(pair: Pair) -> None:
    leader = pair.create()
    write(leader.log, 0, b"a", b"b", b"c")
    pair.round()
    pair.round()
    leader.log.raise_log_start_offset(2)
    pair.leader.replicas.purgatory.wake(leader)
    pair.round()
    assert pair.log().log_start_offset == 2
    pair.keep_starts()
    pair.round()
    assert leader.low_watermark() == 2


def test_an_error_of_one_partition_does_not_stop_the_others(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t", "u"):
        write(pair.create(name).log, 0, b"a")

    take = Followed.take

    def breaks(followed: Followed, answer: Any, now_ms: int) -> bool:
        if followed.partition.topic_partition.topic == "t":
            raise RuntimeError("for testing")
        return take(followed, answer, now_ms)

    monkeypatch.setattr(Followed, "take", breaks)
    pair.round()
    assert (pair.log("t").log_end_offset, pair.log("u").log_end_offset) == (0, 1)


def fetching(node: Node) -> tuple[Fetchers, list[Any]]:
    """Returns the fetchers that follow ``t``, and their requests, each with the callback for its answer."""
    posts: list[Any] = []
    peers: Any = SimpleNamespace(post=lambda leader, request, done, **_: posts.append((request, done)))
    shell: Any = node.replicas
    fetchers = Fetchers(FOLLOWER, peers, shell, node.config, lambda *_: 0, SystemClock(), node.loop, lambda: EPOCH)
    fetchers.assign(node.replicas.partitions.topics["t"][0])
    node.until(lambda: posts)
    return fetchers, posts


def test_an_answer_that_fails_is_fetched_again_in_a_new_session(pair: Pair) -> None:
    pair.create()
    node = pair.follower
    fetchers, posts = fetching(node)
    posts[0][1](SimpleNamespace(error_code=0, session_id=5, responses=None), None)
    node.until(lambda: len(posts) > 1)
    assert [request.session_epoch for request, _ in posts] == [0, 0]
    fetchers.close()
