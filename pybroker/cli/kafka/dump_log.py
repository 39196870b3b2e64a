"""``pybroker kafka-dump-log``: takes the options of kafka-dump-log.sh (DumpLogSegments); needs no broker."""

from __future__ import annotations

import click

from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Verb, complain
from pybroker.cli.log.command import explained

NO_LIMIT = 0x7FFF_FFFF


@click.command("kafka-dump-log", cls=Verb)
@click.option("--files", required=True, metavar="a.log,a.index", help="The files, with commas.")
@click.option("--print-data-log", is_flag=True, help="Also keys and values of records.")
@click.option("--deep-iteration", is_flag=True, help="A line for each record.")
@click.option("--skip-record-metadata", is_flag=True, help="Only key and value of a record.")
@click.option("--offsets-decoder", is_flag=True, help="Records of __consumer_offsets as JSON.")
@click.option("--transaction-log-decoder", is_flag=True, help="Records of __transaction_state as JSON.")
@click.option("--verify-index-only", is_flag=True, help="Of indexes show only errors.")
@click.option("--index-sanity-check", is_flag=True, help="The same.")
@click.option("--max-message-size", type=int, hidden=True)
@click.option("--max-bytes", type=int, default=NO_LIMIT, metavar="N", help="Only this many bytes of a .log.")
@click.option("--value-decoder-class", hidden=True)
@click.option("--key-decoder-class", hidden=True)
def dump_log(
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_message_size: int | None,
    max_bytes: int,
    value_decoder_class: str | None,
    key_decoder_class: str | None,
) -> int:
    """kafka-dump-log.sh: shows the files of a log."""
    from pybroker.cli.common.records.internal_records import GROUP_TYPES, TRANSACTION_TYPES
    from pybroker.cli.common.records.internal_texts import decoder
    from pybroker.cli.common.records.segment_text import Shown, lines, texts

    decode = decoder(GROUP_TYPES if offsets_decoder else TRANSACTION_TYPES)
    contents = decode if offsets_decoder or transaction_log_decoder else texts
    wanted = print_data_log or offsets_decoder or transaction_log_decoder
    how = Shown(wanted or deep_iteration, contents if wanted else None, not skip_record_metadata, max_bytes)
    bad = 0
    with explained():
        for path in files.split(","):
            write(f"Dumping {path}\n")
            if (verify_index_only or index_sanity_check) and path.endswith("index"):
                bad += check_index(path, index_sanity_check)
                continue
            for line in lines(path, how):
                write(line + "\n")
    return 1 if bad else 0


def check_index(path: str, sanity: bool) -> int:
    """Prints the faults of an index. Returns how many there are."""
    from pybroker.log.inspection import inspect_segment

    segment = inspect_segment(f"{path.rpartition('.')[0]}.log", deep=False)
    findings = [each for each in segment.findings if each.path == path]
    for _, place, problem in findings:
        complain(f"{path}: {place}: {problem}")
    if sanity and not findings:
        write(f"{path} passed sanity check.\n")
    return len(findings)
