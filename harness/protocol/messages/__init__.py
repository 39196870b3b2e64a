"""Messages that kafka-python 3.0.12 lacks, from their public layout, for kafka-python's own codec (KIP-848)."""

from kafka.protocol.api_message import ApiMessage

HERE = "harness.protocol.messages"


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=HERE):  # type: ignore[call-arg, misc]
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=HERE):  # type: ignore[call-arg, misc]
    pass


class ConsumerGroupDescribeRequest(ApiMessage, load_json=HERE):  # type: ignore[call-arg, misc]
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=HERE):  # type: ignore[call-arg, misc]
    pass
