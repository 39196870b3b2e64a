"""The version of each API that a broker and this client have in common (KIP-35)."""

from __future__ import annotations

from pyclient.errors import UnsupportedByBroker
from pyclient.protocol import ApiVersions
from pyclient.protocol.apis import Api, by_key


class Versions:
    """The APIs and features of one broker. ``features`` has its finalized features by name (KIP-584), such as
    ``{"transaction.version": 2}``. ``features_epoch`` is -1 if the broker names none.
    """

    __slots__ = ("_chosen", "features", "features_epoch", "ranges")

    def __init__(self, response: ApiVersions.Response) -> None:
        self.ranges = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        self.features = {row.name: row.max_version_level for row in response.finalized_features}
        self.features_epoch = response.finalized_features_epoch
        self._chosen: dict[tuple[Api, int | None], int] = {}

    def __str__(self) -> str:
        """Returns the APIs that this client knows, with the broker's versions."""
        known = ((by_key(key), low, high) for key, (low, high) in self.ranges.items())
        return ", ".join(f"{api.name} {low}-{high}" for api, low, high in known if api is not None)

    def choose(self, api: Api, max_version: int | None = None) -> int:
        """Returns the newest version that both sides have, at most ``max_version``. Raises UnsupportedByBroker."""
        known = self._chosen.get((api, max_version))
        if known is not None:
            return known
        low, high = self.ranges.get(api.key, (0, -1))
        chosen = min(high, api.max_version)
        if max_version is not None:
            chosen = min(chosen, max_version)
        if chosen < max(low, api.min_version):
            raise UnsupportedByBroker(_explain(api, low, high, max_version))
        self._chosen[api, max_version] = chosen
        return chosen


def _explain(api: Api, low: int, high: int, max_version: int | None) -> str:
    if high < 0:
        return f"the broker does not serve {api.name}"
    ours = api.max_version if max_version is None else min(api.max_version, max_version)
    return f"the broker serves {api.name} {low}-{high}, this client {api.min_version}-{ours}"
