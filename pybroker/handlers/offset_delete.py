"""OffsetDelete (47), KIP-496: deletes committed offsets of topics that the group does not read."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.offset_writes import of_existing
from pybroker.handlers.common.security.rights import DELETE_GROUP, check
from pyclient.protocol import OffsetDelete, errors

Response = OffsetDelete.Response


async def handle(request: OffsetDelete.Request, call: Call) -> OffsetDelete.Response:
    """Answers with one result per partition, or with the first error of the group."""
    response = Response()

    async def delete(part: OffsetDelete.Request) -> OffsetDelete.Response:
        deleted: OffsetDelete.Response = await call.broker.groups.offset_delete(part)
        if (error := errors.by_code(deleted.error_code)) is not None:
            raise error
        return deleted

    kinds = (lambda asked: Response.OffsetDeleteResponseTopic(name=asked.name), Response.OffsetDeleteResponsePartition)
    try:
        check(call, DELETE_GROUP, request.group_id)
        await of_existing(request, call, response.topics, kinds, delete, always=True)
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    return response
