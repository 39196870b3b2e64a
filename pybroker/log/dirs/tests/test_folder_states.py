from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.dirs import folder_states
from pybroker.log.dirs.folder_states import Start, file_state, folder_state
from pybroker.log.dirs.folders import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX, marked_name
from pybroker.log.tests.helpers import TOPIC_ID, TP, fill, manager, numbered
from pybroker.topic_partition import TopicPartition

PAGE = Path(__file__).parents[4] / "docs" / "on-disk.md"
CONFIG = LogConfig(segment_bytes=1000)
ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a-0", Start.OPENS),
        ("a.b-delete-0", Start.OPENS),
        (f"a-0.{ID}-delete-7", Start.OPENS),
        (f"a-0.{ID}-delete", Start.REMOVES),
        (f"a-0.{ID}-future", Start.REMOVES),
        (f"a-0.{ID}-stray", Start.KEEPS),
        ("lost+found", None),
        ("my-backup-delete", None),
        ("a-0.bak", None),
    ],
)
def test_a_start_treats_each_folder_by_its_name(name, start):
    state = folder_state(name)
    assert (state.start if state else None) is start


@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX])
def test_a_folder_with_the_longest_topic_name_can_get_each_suffix(suffix):
    name = marked_name(TopicPartition("x" * 249, 12), suffix)
    state = folder_state(name)
    assert len(name) == 255
    assert state is not None
    assert state.name.endswith(suffix)


NOT_OURS = ("x.log.cleaned", "x.log.swap", "notes.txt", "1.log", "backup.log.deleted", "x.swap", f"{10**20 - 1}.log")


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_start_changes_no_foreign_file_of_a_log(tmp_path, name):
    assert file_state(name) is None
    logs = manager(tmp_path, config=CONFIG)
    logs.load()
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG), numbered(30))
    (tmp_path / "t-0" / name).write_text("somebody's")
    logs = manager(tmp_path, config=CONFIG)
    logs.load()
    assert logs.get(TP).log_end_offset == 30
    assert (tmp_path / "t-0" / name).read_text() == "somebody's"


def test_every_file_that_a_log_creates_is_in_the_table_of_file_states(tmp_path):
    logs = manager(tmp_path, config=CONFIG)
    logs.load()
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG), numbered(30))
    logs.close()
    for path in (tmp_path / "t-0").iterdir():
        assert file_state(path.name) is not None, path
    for path in tmp_path.iterdir():
        known = any(state.pattern.match(path.name) for state in folder_states.DIR_FILES)
        assert known or folder_state(path.name), path


def test_the_documentation_shows_the_table_of_file_states():
    text = PAGE.read_text()
    for table in (folder_states.FOLDERS, folder_states.FILES, folder_states.DIR_FILES):
        for state in table:
            row = f"| `{state.name}` | {state.meaning} | {state.start.value} | {state.because} |"
            assert row in text, row
