"""What checkpoint files say of logs that are gone: nothing, once another log has the name."""

from __future__ import annotations

from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import checkpoints
from pybroker.log.files.storage import Storage
from pybroker.log.tests.helpers import TOPIC_ID, TP, fill, manager, numbered

CONFIG = LogConfig()
FILES = (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK, checkpoints.CLEANER)


def loaded(path):
    logs = manager(path, config=CONFIG)
    logs.load()
    return logs


def remembered(path):
    """The logs of which checkpoint files in this dir speak."""
    return {tp for name in FILES for tp in checkpoints.read_offsets(Storage(), str(path / name))}


def after(monkeypatch, name, deed):
    """Another thread does it when this step of ``LogDir`` ends the next time."""
    step = getattr(LogDir, name)

    def then(self):
        monkeypatch.setattr(LogDir, name, step)
        step(self)
        deed()

    monkeypatch.setattr(LogDir, name, then)


def test_a_log_that_comes_and_goes_while_the_files_are_written_is_known_to_be_in_them(tmp_path, monkeypatch):
    """Which logs they would speak of no longer was noted before they spoke of the next one of that name."""
    logs = loaded(tmp_path)
    log_dir = logs.dirs[0]
    log_dir.stale.add(TP)

    def come():
        fill(logs.get_or_create(TP, TOPIC_ID, CONFIG), numbered(3))
        after(monkeypatch, "checkpoint_high_watermarks", lambda: logs.take_out([TP]))

    after(monkeypatch, "checkpoint_recovery_points", come)
    log_dir.write_checkpoints()
    assert (remembered(tmp_path), log_dir.stale) == ({TP}, {TP})
    log_dir.write_checkpoints()
    assert (remembered(tmp_path), log_dir.stale) == (set(), set())
