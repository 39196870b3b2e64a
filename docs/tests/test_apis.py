from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from docs.apis import MISSING, page
from harness.peers import KAFKA_VERSION, libs
from pybroker.handlers import ROWS

DOCS = Path(__file__).resolve().parents[1]
COMMENT = re.compile(r"(?m)^\s*//.*$")


def test_the_page_of_apis_says_what_is_served() -> None:
    assert (DOCS / "apis.md").read_text(encoding="utf-8") == page()


def test_no_api_is_both_served_and_missing() -> None:
    missing = [key for each in MISSING for key in each.apis]
    assert len(missing) == len(set(missing))
    assert not {row.api.key for row in ROWS} & set(missing)


@pytest.mark.nightly
def test_the_page_names_every_api_of_kafkas_brokers() -> None:
    """It reads the messages in Kafka's jar."""
    served = {row.api.key: row.api.name for row in ROWS if not row.between_brokers}
    named = served | {key: name for each in MISSING for key, name in each.apis.items()}
    with ZipFile(libs() / f"kafka-clients-{KAFKA_VERSION}.jar") as jar:
        texts = [jar.read(name).decode() for name in jar.namelist() if name.endswith("Request.json")]
    messages = [json.loads(COMMENT.sub("", text)) for text in texts]
    kafkas = {each["apiKey"]: each["name"] for each in messages if "broker" in each.get("listeners", ())}
    assert named == {key: name.removesuffix("Request") for key, name in kafkas.items()}
