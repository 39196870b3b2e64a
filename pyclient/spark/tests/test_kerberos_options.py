"""Options of Kerberos reach every client of a source or sink: the library gets keytab, principal and service."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pyclient.config import ADMIN, CONSUMER, PRODUCER, load
from pyclient.config.table import Table
from pyclient.core.security.credentials import credentials
from pyclient.protocol.sasl import Away
from pyclient.security import kerberos
from pyclient.spark import options
from pyclient.spark.options import Use
from pyclient.spark.sink.settings import client_settings
from pyclient.spark.source.source_options import source_options
from pyclient.tests.security.fake_gssapi import Library

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
BASE = {
    "kafka.bootstrap.servers": "host:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "GSSAPI",
    "kafka.sasl.kerberos.service.name": "kfk",
}
OURS = {"kafka.sasl.kerberos.keytab": "{keytab}", "kafka.sasl.kerberos.principal": "alice@REALM.COM"}
JAVAS = {"kafka.sasl.jaas.config": f'{MODULE} keyTab="{{keytab}}" principal="alice@REALM.COM";'}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(kerberos, "library", lambda: made)
    return made


def of_source(given: Mapping[str, str]) -> Mapping[str, str]:
    return source_options({**given, "subscribe": "t"}, Use.STREAM_READ).client


def of_sink(given: Mapping[str, str]) -> Mapping[str, str]:
    return client_settings(options.read({**given, "topic": "t"}, Use.STREAM_WRITE).client, exactly_once=True)


@pytest.mark.parametrize("login", [OURS, JAVAS])
@pytest.mark.parametrize(
    ("client_of", "table"), [(of_source, CONSUMER), (of_source, ADMIN), (of_sink, PRODUCER), (of_sink, ADMIN)]
)
def test_every_client_of_a_query_logs_in_with_the_keytab(
    library: Library,
    tmp_path: Path,
    client_of: Callable[[Mapping[str, str]], Mapping[str, str]],
    table: Table,
    login: dict[str, str],
) -> None:
    keytab = tmp_path / "Alice.keytab"
    keytab.touch()
    given = {name: text.format(keytab=keytab) for name, text in login.items()}
    settings = {name: text for name, text in client_of(BASE | given).items() if name in table}
    step = next(credentials(load(table, config=settings), random.random)[0].begin("broker"))
    assert isinstance(step, Away)
    assert step.run() == b"alice@REALM.COM to kfk@broker"
    assert library.stores[0]["client_keytab"] == str(keytab)
