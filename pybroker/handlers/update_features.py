"""UpdateFeatures (57), 0-2: changes the finalized levels of features (KIP-584, KIP-1022).

Version 1 adds upgrade types and validate_only. Version 2 has no results per feature: one bad update refuses all.
"""

from __future__ import annotations

import logging
from typing import Final

from pybroker.cluster.decisions.features import FeatureUpdate, UpgradeType
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pyclient.protocol import UpdateFeatures, errors

Response = UpdateFeatures.Response
_log: Final = logging.getLogger(__name__)

UPGRADE_TYPES_SINCE, NO_RESULTS_SINCE = 1, 2


async def handle(request: UpdateFeatures.Request, call: Call) -> UpdateFeatures.Response:
    """Answers when the new levels are in force and ApiVersions reports them."""
    response: UpdateFeatures.Response = await _at_controller(request, call)
    return response


async def _update(request: UpdateFeatures.Request, call: Call) -> UpdateFeatures.Response:
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, upgrade_type(each, call.version))
        for each in request.feature_updates
    ]
    try:
        left_out = await call.broker.controller.update_features(updates, validate_only=request.validate_only)
    except errors.InvalidUpdateVersion as error:
        text = f"The update failed for all features since the following feature had an error: {error}"
        return Response(error_code=error.code, error_message=text)
    except errors.UnknownServerError as error:
        return Response(error_code=errors.FeatureUpdateFailed.code, error_message=str(error))
    except errors.KafkaError as error:
        return Response(error_code=error.code, error_message=str(error))
    if left_out and not request.validate_only:
        _log.warning("features without effect, because this software lacks them: %s", ", ".join(left_out))
    response = Response()
    if call.version < NO_RESULTS_SINCE:
        response.results = [Response.UpdatableFeatureResult(feature=each.name) for each in updates]
    return response


_at_controller = forwarded(UpdateFeatures, _update)


def upgrade_type(update: UpdateFeatures.Request.FeatureUpdateKey, version: int) -> int:
    """Returns the type of an update. In v0 one bit tells it."""
    if version >= UPGRADE_TYPES_SINCE:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
