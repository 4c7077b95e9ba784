"""What a vector is evaluated under: the features of its version, and its configuration, each worked out once."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from tests.conformance.scenario import World

from berth.config.gates import features_of
from berth.config.load import decode_config
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from berth.config.versions import row_of
from berth.framework.features import Features
from berth.framework.handle import Handle
from berth.framework.profile import Profile
from berth.plugins.registry import IN_TREE
from berth.runtime.assembly import build_profiles

ALL_NODES: Final = 100  # per cent
NOW_S: Final = 1_782_864_000.0  # 2026-07-01, after everything that the vectors tell of
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@lru_cache
def features(version: str) -> Features:
    """The features of *version* at their defaults.

    Raises:
        KeyError: no such version is served.
    """
    return features_of(row_of(version))


def configuration(version: str, given: dict[str, Any] | None) -> KubeSchedulerConfiguration:
    """The configuration of a vector, with all nodes looked at.

    Raises:
        KeyError: no such version is served.
        ConfigError: it is refused.
    """
    document = {"apiVersion": API_VERSION, "kind": KIND, **(given or {}), "percentageOfNodesToScore": ALL_NODES}
    return _configuration(version, _ENCODER.encode(document))


@lru_cache
def _configuration(version: str, document: bytes) -> KubeSchedulerConfiguration:
    return decode_config(msgspec.json.decode(document), row_of(version), features(version).gates)


def profiles(version: str, config: KubeSchedulerConfiguration, world: World) -> Mapping[str, Profile]:
    """The profiles of *config* by scheduler name, with the plugins that exist, in the surroundings of one vector.

    Raises:
        ConfigError: one cannot be built.
    """
    own = features(version)
    handle = Handle(cluster=world.cluster, gates=own.gates, behaviours=own.behaviours, clock=lambda: NOW_S)
    return build_profiles(config, row_of(version), handle, IN_TREE)
