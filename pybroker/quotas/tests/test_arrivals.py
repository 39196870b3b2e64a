"""Clients that connect too often."""

from __future__ import annotations

from pybroker.quotas.arrivals import Arrivals
from pybroker.quotas.client_quotas import MOST_CLIENTS
from pybroker.quotas.keys import CONNECTIONS, DEFAULT, Entity
from pybroker.quotas.rate import Windows


def arrivals(
    broker: float | None = None, listeners: dict[str, float] | None = None, **addresses: float
) -> Arrivals:
    made = Arrivals(Windows())
    quotas = {Entity(ip=ip): {CONNECTIONS: rate} for ip, rate in addresses.items()}
    made.update(broker, listeners or {}, quotas)
    return made


def test_connections_over_the_brokers_connection_rate_are_delayed_up_to_one_second() -> None:
    made = arrivals(2)
    assert [made.accept("A", 0) for _ in range(20)] == [0] * 20
    assert made.accept("A", 0) == 500
    assert made.accept("B", 0) == 1000
    assert [made.accept("B", 0) for _ in range(9)] == [1000] * 9


def test_a_listener_has_its_own_connection_rate() -> None:
    made = arrivals(listeners={"A": 1})
    assert [made.accept("A", 0) for _ in range(11)][-2:] == [0, 1000]
    assert [made.accept("B", 0) for _ in range(50)] == [0] * 50


def test_the_inter_broker_listener_does_not_use_the_brokers_connection_rate() -> None:
    made = arrivals(1)
    assert [made.accept("B", 0, is_protected=True) for _ in range(50)] == [0] * 50
    assert made.accept("A", 0) == 0


def test_a_connection_rate_of_zero_admits_one_connection_per_second() -> None:
    assert arrivals(0).accept("A", 0) == 1000


def test_an_ip_address_over_its_connection_rate_is_refused_and_refusals_do_not_count() -> None:
    made = arrivals(**{"10.0.0.1": 1, DEFAULT: 2})
    assert [made.refuse("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1000] * 2
    assert made.refuse("10.0.0.1", 10_999) > 0
    assert made.refuse("10.0.0.1", 11_000) == 0
    assert [made.refuse("10.0.0.2", 0) for _ in range(21)] == [0] * 20 + [500]
    assert made.refuse("10.0.0.3", 0) == 0


def test_an_ip_address_has_one_quota_however_it_is_written() -> None:
    made = arrivals(**{"0:0::1": 0.1})
    assert [made.refuse("::1", 0), made.refuse("::1", 0)] == [0, 1000]
    assert made.refuse("::2", 0) == 0


def test_connection_rates_that_are_removed_stop_limiting_at_once() -> None:
    made = arrivals(1, {"A": 1}, **{"10.0.0.1": 1})
    assert made.is_limited
    made.update(None, {}, {})
    assert not made.is_limited
    assert [made.accept("A", 0) + made.refuse("10.0.0.1", 0) for _ in range(50)] == [0] * 50


def test_the_number_of_remembered_addresses_is_limited() -> None:
    made = arrivals(**{DEFAULT: 5})
    for number in range(MOST_CLIENTS + 100):
        made.refuse(str(number), number)
    assert len(made._of_addresses) <= MOST_CLIENTS
