"""Closes a client while other threads use it: each call must end and say why, and no thread may stay."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.errors import ClientClosed, KafkaError

PATIENCE_S = 60.0
THREADS = 3
Call = Callable[[], object]


class Closed:
    """Creates clients, has threads call them, and closes them at a random moment."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.place = TopicPartition(topic, 0)
        self.random = random.Random(seed)
        self.calls = 0
        self._lock = threading.Lock()
        with Producer(bootstrap) as producer:
            producer.send(topic, b"v").result(PATIENCE_S)

    def run(self, rounds: int) -> None:
        """Raises AssertionError if a call hangs, or raises an error other than that of a closed client."""
        before = threading.active_count()
        for number in range(rounds):
            kind = (self._admin, self._producer, self._consumer)[number % 3]
            self._round(*kind())
        assert threading.active_count() == before

    def _round(self, client: Any, calls: list[Call], threads: int) -> None:
        errors: list[BaseException] = []
        workers = [
            threading.Thread(target=self._work, args=(self.random.choice(calls), errors), daemon=True)
            for _ in range(threads)
        ]
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(0, 0.02))
        client.close()
        for worker in workers:
            worker.join(PATIENCE_S)
            assert not worker.is_alive(), f"a call of a closed {type(client).__name__} hangs"
        assert all(isinstance(error, ClientClosed) for error in errors), errors
        assert len(errors) == threads

    def _work(self, call: Call, errors: list[BaseException]) -> None:
        try:
            while True:
                call()
                with self._lock:
                    self.calls += 1
        except Exception as error:
            errors.append(error)

    def _admin(self) -> tuple[Any, list[Call], int]:
        admin = Admin(self.bootstrap)
        topics = [self.place.topic]
        return admin, [admin.list_topics, lambda: admin.describe_topics(topics), admin.describe_cluster], THREADS

    def _producer(self) -> tuple[Any, list[Call], int]:
        producer = Producer(self.bootstrap)
        topic = self.place.topic

        def send_and_wait() -> None:
            producer.send(topic, b"v").result(PATIENCE_S)

        def send_and_flush() -> None:
            producer.send(topic, b"v")
            producer.flush()

        return producer, [send_and_wait, send_and_flush, lambda: producer.partitions_for(topic)], THREADS

    def _consumer(self) -> tuple[Any, list[Call], int]:
        """Uses a consumer from one thread at a time, except for the thread that closes it."""
        consumer = Consumer(self.bootstrap, group_id="closed", enable_auto_commit=False)
        consumer.assign([self.place])
        place = self.place

        def ask() -> None:
            try:
                consumer.commit({place: 0})
            except KafkaError as error:
                if not error.retriable:
                    raise

        look: Call = lambda: consumer.poll(timeout=0)  # noqa: E731
        return consumer, [consumer.poll, look, lambda: consumer.end_offsets([place]), ask], 1
