"""A class stands behind the resource that it names, and behind the name that follows from its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.devices import a_device_class

from berth.cluster.device_classes import DeviceClasses
from berth.cluster.kinds import DEVICE_CLASS
from berth.cluster.objects import Objects

if TYPE_CHECKING:
    from berth.api.dra import DeviceClass

GPU = "example.com/gpu"
OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def of(name: str) -> str:
    return f"deviceclass.resource.kubernetes.io/{name}"


def test_a_class_stands_behind_its_resource_and_its_own_name_while_it_exists() -> None:
    objects = Objects()
    classes = DeviceClasses(objects)
    objects.put(DEVICE_CLASS, a_device_class("gpu", resource=GPU))
    assert [classes.behind(name) for name in (GPU, of("gpu"), "gpu", "cpu")] == ["gpu", "gpu", None, None]
    objects.remove(DEVICE_CLASS, "gpu")
    assert [classes.behind(name) for name in (GPU, of("gpu"))] == [None, None]


def test_a_class_that_names_another_resource_leaves_the_former() -> None:
    objects = Objects()
    classes = DeviceClasses(objects)
    objects.put(DEVICE_CLASS, a_device_class("gpu", resource=GPU))
    objects.put(DEVICE_CLASS, a_device_class("gpu", resource="example.com/card"))
    assert [classes.behind(name) for name in (GPU, "example.com/card", of("gpu"))] == [None, "gpu", "gpu"]
    objects.put(DEVICE_CLASS, a_device_class("gpu"))
    assert [classes.behind(name) for name in ("example.com/card", of("gpu"))] == [None, "gpu"]


@pytest.mark.parametrize(
    ("first", "second", "wins"),
    [
        (a_device_class("a", resource=GPU, created=OLD), a_device_class("b", resource=GPU, created=NEW), "b"),
        (a_device_class("a", resource=GPU, created=NEW), a_device_class("b", resource=GPU, created=OLD), "a"),
        (a_device_class("a", resource=GPU, created=OLD), a_device_class("b", resource=GPU, created=OLD), "a"),
        (a_device_class("b", resource=GPU, created=OLD), a_device_class("a", resource=GPU, created=OLD), "a"),
    ],
    ids=["the newer comes second", "the newer comes first", "by name, the first", "by name, the second"],
)
def test_of_two_classes_for_one_resource_the_newer_stands_behind_it(
    first: DeviceClass, second: DeviceClass, wins: str
) -> None:
    objects = Objects()
    classes = DeviceClasses(objects)
    for each in (first, second):
        objects.put(DEVICE_CLASS, each)
    assert classes.behind(GPU) == wins


def test_a_class_that_comes_too_late_for_its_resource_is_not_behind_its_own_name_either() -> None:
    objects = Objects()
    classes = DeviceClasses(objects)
    objects.put(DEVICE_CLASS, a_device_class("a", resource=GPU, created=NEW))
    objects.put(DEVICE_CLASS, a_device_class("b", resource=GPU, created=OLD))
    assert (classes.behind(of("a")), classes.behind(of("b"))) == ("a", None)


def test_a_class_that_goes_takes_its_resource_along_whoever_stands_behind_it() -> None:
    objects = Objects()
    classes = DeviceClasses(objects)
    objects.put(DEVICE_CLASS, a_device_class("a", resource=GPU, created=OLD))
    objects.put(DEVICE_CLASS, a_device_class("b", resource=GPU, created=NEW))
    objects.remove(DEVICE_CLASS, "a")
    assert (classes.behind(GPU), classes.behind(of("b"))) == (None, "b")
