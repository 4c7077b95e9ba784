"""Volumes of drivers that once were part of Kubernetes, as their successors know them.

For such a driver there is a storage driver of its own, which handles the volumes under another name and handle, and
which marks nodes with topology labels of its own.  Called by the plugins that count volumes per driver, or compare the
node affinity of a volume with the labels of a node.

Source: k8s staging/src/k8s.io/csi-translation-lib.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from berth.api.affinity import NodeSelector, NodeSelectorTerm
from berth.api.meta import Labels
from berth.api.pod import Volume
from berth.api.selectors import IN, SelectorRequirement
from berth.api.storage import (
    OLD_REGION,
    OLD_ZONE,
    REGION,
    ZONE,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)

_DELIMITER: Final = "__"  # between the zones in one label
_UNSPECIFIED: Final = "UNSPECIFIED"
_PARTS_OF_ZONE: Final = 3  # continent, region, zone
_MANAGED: Final = "managed"  # the one kind of Azure disks that the successor takes
_AMAZON_SCHEME: Final = "aws://"
_AMAZON_ID: Final = re.compile(r"vol-[^/]*")

Sources = Volume | PersistentVolumeSpec
"""Both name the disk in fields of the same names."""


class TranslationError(Exception):
    """A volume cannot be told to its new driver."""


class CsiSource(NamedTuple):
    """A volume, as its storage driver knows it."""

    driver: str
    handle: str


def _no_handle(source: Sources, labels: Labels) -> str:
    """Nobody counts volumes of this driver."""
    del source, labels
    return ""


def _amazon_handle(source: Sources, labels: Labels) -> str:
    del labels
    text = source.aws_elastic_block_store.volume_id if source.aws_elastic_block_store else ""
    if not text.startswith(_AMAZON_SCHEME):
        return text
    try:
        handle = urlsplit(text).path.strip("/")
    except ValueError as error:
        raise TranslationError(f"invalid disk name ({text}): {error}") from error
    if _AMAZON_ID.fullmatch(handle) is None:
        raise TranslationError(f"invalid format for AWS volume ({text})")
    return handle


def _google_handle(source: Sources, labels: Labels) -> str:
    name = source.gce_persistent_disk.pd_name if source.gce_persistent_disk else ""
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE, "")).split(_DELIMITER)
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_google_region(zones)}/disks/{name}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"


def _google_region(zones: list[str]) -> str:
    parts = [zone.split("-") for zone in zones]
    odd = [zone for zone, split in zip(zones, parts, strict=True) if len(split) != _PARTS_OF_ZONE]
    if odd:
        raise TranslationError(f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {odd[0]}")
    regions = {"-".join(split[:-1]) for split in parts}
    if len(regions) != 1:
        raise TranslationError(f"multiple or no regions gotten from zones, got: {sorted(regions)}")
    return regions.pop()


def _azure_handle(source: Sources, labels: Labels) -> str:
    del labels
    disk = source.azure_disk
    if disk is None:
        return ""
    if disk.kind is not None and disk.kind.lower() != _MANAGED:
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _cinder_handle(source: Sources, labels: Labels) -> str:
    del labels
    return source.cinder.volume_id if source.cinder else ""


def _portworx_handle(source: Sources, labels: Labels) -> str:
    del labels
    return source.portworx_volume.volume_id if source.portworx_volume else ""


@dataclass(frozen=True, slots=True)
class InTreeDriver:
    """A driver that has a successor.

    Attributes:
        name: its own name, which classes call the provisioner.
        successor: the storage driver that took over.
        field: where a volume or the spec of a persistent volume names the disk.
        handle: a disk, and the labels of its volume, to the handle that the successor knows it by.
        topology_key: the label by which the successor marks the zone of a node; None where zones stay as they are.
        switched: whether the scheduler takes the successor to be in charge.
    """

    name: str
    successor: str
    field: str
    handle: Callable[[Sources, Labels], str]
    topology_key: str | None = None
    switched: bool = True


DRIVERS: Final = (
    InTreeDriver(
        name="kubernetes.io/gce-pd",
        successor="pd.csi.storage.gke.io",
        field="gce_persistent_disk",
        handle=_google_handle,
        topology_key="topology.gke.io/zone",
    ),
    InTreeDriver(
        name="kubernetes.io/aws-ebs",
        successor="ebs.csi.aws.com",
        field="aws_elastic_block_store",
        handle=_amazon_handle,
        topology_key="topology.ebs.csi.aws.com/zone",
    ),
    InTreeDriver(
        name="kubernetes.io/cinder",
        successor="cinder.csi.openstack.org",
        field="cinder",
        handle=_cinder_handle,
        topology_key="topology.cinder.csi.openstack.org/zone",
    ),
    InTreeDriver(
        name="kubernetes.io/azure-disk",
        successor="disk.csi.azure.com",
        field="azure_disk",
        handle=_azure_handle,
    ),
    InTreeDriver(
        name="kubernetes.io/portworx-volume",
        successor="pxd.portworx.com",
        field="portworx_volume",
        handle=_portworx_handle,
    ),
    InTreeDriver(
        name="kubernetes.io/azure-file",
        successor="file.csi.azure.com",
        field="azure_file",
        handle=_no_handle,
        switched=False,
    ),
    InTreeDriver(
        name="kubernetes.io/vsphere-volume",
        successor="csi.vsphere.vmware.com",
        field="vsphere_volume",
        handle=_no_handle,
        switched=False,
    ),
)
BY_NAME: Final = {driver.name: driver for driver in DRIVERS}


def in_tree_driver(source: Sources) -> InTreeDriver | None:
    """The driver with a successor that a volume of a pod, or the spec of a persistent volume, names a disk of."""
    return next((driver for driver in DRIVERS if getattr(source, driver.field) is not None), None)


def translate_volume(volume: Volume) -> CsiSource | None:
    """A volume of a pod as its new driver knows it; None if it names no disk that has one.

    Raises:
        TranslationError: the disk is named in no form that there is.
    """
    driver = in_tree_driver(volume)
    if driver is None:
        return None
    return CsiSource(driver.successor, driver.handle(volume, {}))


def translate_persistent_volume(volume: PersistentVolume) -> CsiSource | None:
    """A persistent volume as its new driver knows it; None if it has none.

    Raises:
        TranslationError: the disk is named in no form that there is, or lies in zones that make no sense.
    """
    driver = in_tree_driver(volume.spec)
    if driver is None:
        return None
    return CsiSource(driver.successor, driver.handle(volume.spec, volume.metadata.labels))


def translate_affinity(volume: PersistentVolume, driver: InTreeDriver) -> NodeSelector | None:
    """The node affinity of a persistent volume of *driver*, in the labels of the successor.

    The zone is that of the affinity, or else that of the volume's own label.

    Raises:
        TranslationError: as for `translate_persistent_volume`.
    """
    translate_persistent_volume(volume)
    affinity = volume.spec.node_affinity or VolumeNodeAffinity()
    required = affinity.required
    if driver.topology_key is None:
        return required
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _names_in_use(volume, terms)
    if _values(terms, zone):
        terms = _renamed(terms, zone, driver.topology_key)
    else:
        label = volume.metadata.labels.get(zone, "")
        zones = sorted({part.strip() for part in label.split(_DELIMITER)} - {""})
        if zones:
            expression = SelectorRequirement(key=driver.topology_key, operator=IN, values=tuple(zones))
            terms = tuple(_with(term, expression) for term in terms or (NodeSelectorTerm(),))
    if region == OLD_REGION and _values(terms, OLD_REGION):
        terms = _renamed(terms, OLD_REGION, REGION)
    if required is None and not terms:
        return None
    return NodeSelector(node_selector_terms=terms)


def _names_in_use(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    """By which names zone and region go: the affinity decides, then the labels; new names go first."""
    keys = {expression.key for term in terms for expression in term.match_expressions}
    for names in (keys, volume.metadata.labels):
        if ZONE in names:
            return ZONE, REGION
        if OLD_ZONE in names:
            return OLD_ZONE, OLD_REGION
    return ZONE, REGION


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(e.key == key and e.values for term in terms for e in term.match_expressions)


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(e, key=new) if e.key == old else e for e in term.match_expressions
            ),
        )
        for term in terms
    )


def _with(term: NodeSelectorTerm, expression: SelectorRequirement) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=(*term.match_expressions, expression))
