"""What every object carries: its name, its versions, its labels and its owners.

Only the fields that the scheduler reads are decoded.  All structs of this package are immutable and outside the
garbage collector's reach, because they never refer to each other in a circle and live by the hundred thousand.
"""

from typing import NewType

import msgspec

NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
PodKey = NewType("PodKey", str)  # "namespace/name"

Labels = dict[str, str]


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True):
    """Base of all decoded objects: camel-case field names, unknown fields dropped, absent ones defaulted."""


class OwnerReference(ApiStruct, frozen=True):
    """The object that manages another one, if ``controller`` is true."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata that the scheduler reads; times stay texts, which compare in order within one format."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(ApiStruct, frozen=True):
    """One condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int = 0
