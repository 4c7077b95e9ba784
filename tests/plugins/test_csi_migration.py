"""Volumes of drivers that have a successor, as the successor knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_term
from tests.storage import a_volume, azure_share, claim, ebs, gce, iscsi

from berth.api.affinity import NodeSelector
from berth.api.pod import (
    AzureDiskVolumeSource,
    CinderVolumeSource,
    PortworxVolumeSource,
    Volume,
    VsphereVolumeSource,
)
from berth.plugins.csi_migration import (
    DRIVERS,
    TranslationError,
    in_tree_driver,
    translate_affinity,
    translate_persistent_volume,
    translate_volume,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.api.affinity import NodeSelectorTerm

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
AMAZON_ZONE = "topology.ebs.csi.aws.com/zone"


def azure(uri: str, kind: str | None = None) -> Volume:
    return Volume(name="disk", azure_disk=AzureDiskVolumeSource(disk_uri=uri, kind=kind))


VOLUMES: Mapping[str, tuple[Volume, tuple[str, str] | None]] = {
    "Amazon, plain": (ebs("vol-1"), ("ebs.csi.aws.com", "vol-1")),
    "Amazon, plain and odd": (ebs("disk-1"), ("ebs.csi.aws.com", "disk-1")),
    "Amazon, with a zone": (ebs("aws://eu-west-1a/vol-1"), ("ebs.csi.aws.com", "vol-1")),
    "Amazon, without a zone": (ebs("aws:///vol-1"), ("ebs.csi.aws.com", "vol-1")),
    "Google": (gce("disk"), ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk")),
    "Azure disk": (azure("/subscriptions/x", "Managed"), ("disk.csi.azure.com", "/subscriptions/x")),
    "Azure disk of no kind": (azure("/subscriptions/x"), ("disk.csi.azure.com", "/subscriptions/x")),
    "Azure share, which nobody counts": (azure_share(), ("file.csi.azure.com", "")),
    "Cinder": (
        Volume(name="disk", cinder=CinderVolumeSource(volume_id="c-1")),
        ("cinder.csi.openstack.org", "c-1"),
    ),
    "Portworx": (
        Volume(name="disk", portworx_volume=PortworxVolumeSource(volume_id="p-1")),
        ("pxd.portworx.com", "p-1"),
    ),
    "vSphere, which nobody counts": (
        Volume(name="disk", vsphere_volume=VsphereVolumeSource()),
        ("csi.vsphere.vmware.com", ""),
    ),
    "no successor": (iscsi("iqn"), None),
    "a claim": (claim("data"), None),
}


@pytest.mark.parametrize(("volume", "source"), VOLUMES.values(), ids=VOLUMES.keys())
def test_a_volume_of_a_pod_goes_to_the_successor_under_its_handle(
    volume: Volume, source: tuple[str, str] | None
) -> None:
    assert translate_volume(volume) == source


FAULTS: Mapping[str, tuple[Volume, str]] = {
    "an Amazon address without a volume": (ebs("aws://eu-west-1a/disk-1"), "invalid format for AWS volume"),
    "an Amazon address that is none": (ebs("aws://[::1/vol-1"), "invalid disk name"),
    "an Azure disk that is not managed": (azure("uri", "Dedicated"), r"kind\(Dedicated\) is not supported"),
}


@pytest.mark.parametrize(("volume", "words"), FAULTS.values(), ids=FAULTS.keys())
def test_a_disk_that_is_named_in_no_known_form_is_a_fault(volume: Volume, words: str) -> None:
    with pytest.raises(TranslationError, match=words):
        translate_volume(volume)


GOOGLE_HANDLES: Mapping[str, tuple[dict[str, str], str]] = {
    "no zone": ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
    "a zone": ({ZONE: "europe-west1-b"}, "projects/UNSPECIFIED/zones/europe-west1-b/disks/disk"),
    "a zone by its old name, which goes first": (
        {ZONE: "europe-west1-b", OLD_ZONE: "europe-west1-c"},
        "projects/UNSPECIFIED/zones/europe-west1-c/disks/disk",
    ),
    "zones of one region": (
        {ZONE: "europe-west1-b__europe-west1-c"},
        "projects/UNSPECIFIED/regions/europe-west1/disks/disk",
    ),
}


@pytest.mark.parametrize(("labels", "handle"), GOOGLE_HANDLES.values(), ids=GOOGLE_HANDLES.keys())
def test_a_google_volume_is_known_by_zone_or_region(labels: dict[str, str], handle: str) -> None:
    volume = a_volume(labels=labels, source={"gce_persistent_disk": gce("disk").gce_persistent_disk})
    assert translate_persistent_volume(volume) == ("pd.csi.storage.gke.io", handle)


@pytest.mark.parametrize("zones", ["europe-west1-b__us-east1-c", "a__b"])
def test_a_google_volume_in_zones_of_no_region_is_a_fault(zones: str) -> None:
    volume = a_volume(labels={ZONE: zones}, source={"gce_persistent_disk": gce("disk").gce_persistent_disk})
    with pytest.raises(TranslationError, match="region"):
        translate_persistent_volume(volume)


def amazon(labels: Mapping[str, str], on: Sequence[NodeSelectorTerm] | None) -> Any:
    return a_volume(labels=labels, on=on, source={"aws_elastic_block_store": ebs("vol-1").aws_elastic_block_store})


AFFINITIES: Mapping[str, tuple[dict[str, str], list[NodeSelectorTerm] | None, list[NodeSelectorTerm] | None]] = {
    "neither zone nor affinity": ({}, None, None),
    "a zone in the affinity": ({}, [a_term((ZONE, "In", ["a"]))], [a_term((AMAZON_ZONE, "In", ["a"]))]),
    "an old zone in the affinity": ({}, [a_term((OLD_ZONE, "In", ["a"]))], [a_term((AMAZON_ZONE, "In", ["a"]))]),
    "a zone in the labels": ({ZONE: "b__a"}, None, [a_term((AMAZON_ZONE, "In", ["a", "b"]))]),
    "a zone in the labels joins each term": (
        {ZONE: "a"},
        [a_term(("disk", "Exists", [])), a_term(("rack", "Exists", []))],
        [
            a_term(("disk", "Exists", []), (AMAZON_ZONE, "In", ["a"])),
            a_term(("rack", "Exists", []), (AMAZON_ZONE, "In", ["a"])),
        ],
    ),
    "the affinity goes before the labels": (
        {ZONE: "b"},
        [a_term((ZONE, "In", ["a"]))],
        [a_term((AMAZON_ZONE, "In", ["a"]))],
    ),
    "an old region gets its new name": (
        {},
        [a_term((OLD_ZONE, "In", ["a"]), (OLD_REGION, "In", ["r"]))],
        [a_term((AMAZON_ZONE, "In", ["a"]), (REGION, "In", ["r"]))],
    ),
    "a new region keeps it": (
        {},
        [a_term((ZONE, "In", ["a"]), (REGION, "In", ["r"]))],
        [a_term((AMAZON_ZONE, "In", ["a"]), (REGION, "In", ["r"]))],
    ),
    "a label without zones adds nothing": ({ZONE: "__"}, None, None),
}


@pytest.mark.parametrize(("labels", "before", "after"), AFFINITIES.values(), ids=AFFINITIES.keys())
def test_the_affinity_of_a_volume_is_told_in_the_labels_of_the_successor(
    labels: dict[str, str], before: list[NodeSelectorTerm] | None, after: list[NodeSelectorTerm] | None
) -> None:
    volume = amazon(labels, before)
    driver = in_tree_driver(volume.spec)
    assert driver is not None
    want = None if after is None else NodeSelector(node_selector_terms=tuple(after))
    assert translate_affinity(volume, driver) == want


def test_each_driver_is_known_by_a_field_that_volumes_of_both_sorts_have() -> None:
    volume = a_volume()
    for driver in DRIVERS:
        assert getattr(volume.spec, driver.field) is None
        assert getattr(claim("data"), driver.field) is None
