"""Options of a source, and the errors about wrong ones."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyclient.config import CONSUMER, load
from pyclient.errors import ConfigError
from pyclient.spark.options import OPTIONS, Use, read
from pyclient.spark.source.columns import columns_of
from pyclient.spark.source.offsets import EARLIEST, LATEST, Edge, Specific, Time, Times
from pyclient.spark.source.source_options import SourceOptions, source_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**SERVERS, "subscribe": "t"}


def batch(**options: str) -> SourceOptions:
    return source_options({**TOPIC, **options}, Use.BATCH_READ)


def stream(**options: str) -> SourceOptions:
    return source_options({**TOPIC, **options}, Use.STREAM_READ)


def test_a_batch_starts_at_the_earliest_and_a_stream_at_the_latest_offset() -> None:
    assert (batch().starting, batch().ending) == (Edge(EARLIEST), Edge(LATEST))
    assert stream().starting == Edge(LATEST)


def test_option_names_are_case_insensitive() -> None:
    assert stream(STARTINGOFFSETS="Earliest", maxoffsetspertrigger="7") == stream(
        startingOffsets="earliest", maxOffsetsPerTrigger="7"
    )


def test_one_timestamp_overrides_timestamps_and_these_override_offsets() -> None:
    offsets, times = '{"t":{"0":5}}', '{"t":{"0":1000}}'
    assert batch(startingOffsets=offsets).starting == Specific({("t", 0): 5})
    assert batch(startingOffsets=offsets, startingOffsetsByTimestamp=times).starting == Times({("t", 0): 1000})
    both = batch(startingOffsets=offsets, startingOffsetsByTimestamp=times, startingTimestamp="9")
    assert both.starting == Time(9)


def test_sasl_settings_reach_the_client_and_repr_hides_passwords() -> None:
    made = batch(**{"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512",
                    "kafka.sasl.username": "alice", "kafka.sasl.password": "hush"})  # fmt: skip
    config = load(CONSUMER, config=made.client)
    assert (config.security_protocol, config.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (config.sasl_username, config.sasl_password) == ("alice", "hush")
    assert "hush" not in repr(made)


def test_tls_settings_reach_the_client_and_repr_hides_passwords() -> None:
    made = batch(**{"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/ca.pem",
                    "kafka.ssl.key.password": "hush"})  # fmt: skip
    config = load(CONSUMER, config=made.client)
    assert (config.security_protocol, config.ssl_truststore_location) == ("SSL", "/ca.pem")
    assert config.ssl_key_password == "hush"
    assert "hush" not in repr(made)


def test_options_can_be_pickled() -> None:
    made = source_options({**SERVERS, "subscribePattern": "a.*"}, Use.STREAM_READ)
    assert pickle.loads(pickle.dumps(made)) == made


WRONG = [
    ({}, "Option 'kafka.bootstrap.servers' must be specified"),
    (SERVERS, "One of the following options must be specified for a source: subscribe, subscribePattern, assign"),
    ({**TOPIC, "assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
    ({**SERVERS, "subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ','"),
    ({**SERVERS, "assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
    ({**SERVERS, "subscribePattern": " "}, "Pattern to subscribe is empty"),
    ({**SERVERS, "subscribePattern": "("}, "subscribePattern='\\(' is not a regular expression"),
    ({**TOPIC, "subscribeTopic": "t"}, "unknown option 'subscribeTopic': did you mean subscribe"),
    ({**TOPIC, "minPartitions": "0"}, "minPartitions='0' is below 1"),
    ({**TOPIC, "maxRecordsPerPartition": "x"}, "maxRecordsPerPartition='x' is not an integer"),
    ({**TOPIC, "failOnDataLoss": "no"}, "failOnDataLoss='no' is not a boolean"),
    ({**TOPIC, "valueFormat": "xml"}, "valueFormat='xml' is not one of binary, json, avro"),
    ({**TOPIC, "startingOffsets": "first"}, "Expected e.g."),
    ({**TOPIC, "startingTimestamp": "noon"}, "startingTimestamp='noon' is not an integer"),
    ({**TOPIC, "kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported.*'startingOffsets'"),
    ({**TOPIC, "kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
    ({**TOPIC, "kafka.value.deserializer": "x"}, "'value.deserializer' is not supported"),
    ({**TOPIC, "kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
    ({**TOPIC, "kafka.interceptor.classes": "x"}, "'interceptor.classes' is not supported"),
    ({**TOPIC, "kafka.isolation.levle": "x"}, "did you mean isolation.level"),
    ({**TOPIC, "kafka.sasl.mechanisms": "PLAIN"}, "it is sasl.mechanism"),
]


@pytest.mark.parametrize(("options", "told"), WRONG)
@pytest.mark.parametrize("use", [Use.BATCH_READ, Use.STREAM_READ])
def test_an_error_names_the_wrong_option_and_the_allowed_values(options: dict[str, str], told: str, use: Use) -> None:
    with pytest.raises(ConfigError, match=told):
        source_options(options, use)


@pytest.mark.parametrize("which", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_refuses_an_ending_offset(which: str) -> None:
    with pytest.raises(ConfigError, match=f"{which} is not an option of spark.readStream"):
        stream(**{which: "5"})


def test_a_batch_cannot_start_at_its_end_or_end_at_its_start() -> None:
    with pytest.raises(ConfigError, match="starting offset can't be latest for batch queries"):
        batch(startingOffsets="latest")
    with pytest.raises(ConfigError, match="startingOffsets for t-0 can't be latest for batch queries"):
        batch(startingOffsets='{"t":{"0":-1}}')
    with pytest.raises(ConfigError, match="ending offset can't be earliest for batch queries"):
        batch(endingOffsets="earliest")
    with pytest.raises(ConfigError, match="endingOffsets for t-0 can't be earliest for batch queries"):
        batch(endingOffsets='{"t":{"0":-2}}')


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger\(9\) is higher than the maxOffsetsPerTrigger\(8\)"):
        stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")


def test_limits_of_a_stream_have_no_effect_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    assert batch(maxOffsetsPerTrigger="5").max_offsets is None
    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text


def test_the_group_has_the_same_name_after_a_restart() -> None:
    assert stream().group is None
    assert stream(groupIdPrefix="etl").group == "etl-t"
    assert stream(groupIdPrefix="etl", **{"kafka.group.id": "own"}).group == "own"
    pattern = source_options({**SERVERS, "subscribePattern": "a.*|b", "groupIdPrefix": "p"}, Use.STREAM_READ)
    assert pattern.group == "p-a.-b"


def test_each_option_is_documented_and_no_two_differ_only_by_case() -> None:
    assert all(option.doc and option.use for option in OPTIONS)
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


def test_a_field_of_a_typed_value_that_is_not_nullable_is_refused() -> None:
    inner = StructType([StructField("b", IntegerType(), nullable=False)])
    schema = StructType([StructField("value", StructType([StructField("a", inner)]))])
    with pytest.raises(ConfigError, match="the field 'b' of 'value' is NOT NULL"):
        columns_of(schema, batch(valueFormat="json"))


@pytest.mark.parametrize(
    ("use", "name", "value", "needed"),
    [
        (Use.BATCH_WRITE, "writeId", "w", {"delivery": "exactly-once"}),
        (Use.BATCH_WRITE, "ledgerTopic", "ledger", {"delivery": "exactly-once"}),
        (Use.STREAM_WRITE, "transactionalIdPrefix", "p", {"delivery": "exactly-once"}),
        (Use.BATCH_READ, "valuePrefix", "registry", {"valueFormat": "json"}),
        (Use.STREAM_READ, "valueErrors", "null", {"valueFormat": "avro"}),
        (Use.READ, "valueSchema", "a INT", {"valueFormat": "json"}),
        (Use.READ, "valueSchemaId", "7", {"valueFormat": "avro", "valuePrefix": "registry"}),
    ],
)
def test_an_option_that_would_have_no_effect_is_an_error(
    use: Use, name: str, value: str, needed: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=f"{name} has no effect without {list(needed)[-1]}="):
        read({name: value}, use)
    assert name in read({name: value, **needed}, use)
