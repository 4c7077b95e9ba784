"""Changes of our own are assumed until the API server shows another version, or until they are taken back."""

from __future__ import annotations

import msgspec
import pytest
from tests.storage import a_claim, a_volume

from berth.api.storage import PersistentVolume
from berth.cluster.assumed import AssumeCache, AssumeError
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.cluster.objects import Objects


def changed(volume: PersistentVolume, *, version: str | None = None) -> PersistentVolume:
    """The volume with a mark of ours; or as another version, which somebody else made."""
    meta = msgspec.structs.replace(volume.metadata, annotations={"mark": "ours" if version is None else "theirs"})
    if version is not None:
        meta = msgspec.structs.replace(meta, resource_version=version)
    return msgspec.structs.replace(volume, metadata=meta)


def a_cache(volume: PersistentVolume) -> tuple[Objects, AssumeCache[PersistentVolume]]:
    objects = Objects()
    cache = AssumeCache(objects, PERSISTENT_VOLUME)
    objects.put(PERSISTENT_VOLUME, volume)
    return objects, cache


def test_what_is_assumed_is_what_is_known() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    other = a_volume("other")
    objects.put(PERSISTENT_VOLUME, other)
    ours = changed(volume)
    cache.assume(ours)
    assert cache.get("pv") is ours
    assert list(cache.list()) == [ours, other]
    assert objects.get(PERSISTENT_VOLUME, "pv") is volume


def test_what_is_taken_back_is_as_it_was() -> None:
    volume = a_volume("pv")
    _, cache = a_cache(volume)
    ours = changed(volume)
    cache.assume(ours)
    cache.restore(ours)
    cache.restore(ours)
    assert cache.get("pv") is volume


def test_only_the_last_assumption_can_be_taken_back() -> None:
    volume = a_volume("pv")
    _, cache = a_cache(volume)
    first, second = changed(volume), changed(volume)
    cache.assume(first)
    cache.assume(second)
    cache.restore(first)
    assert cache.get("pv") is second


def test_another_version_settles_the_matter() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    ours, theirs = changed(volume), changed(volume, version="2")
    cache.assume(ours)
    objects.put(PERSISTENT_VOLUME, theirs)
    assert cache.get("pv") is theirs
    cache.restore(ours)
    assert cache.get("pv") is theirs


def test_the_same_version_shown_again_changes_nothing() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    ours = changed(volume)
    cache.assume(ours)
    objects.put(PERSISTENT_VOLUME, a_volume("pv"))
    assert cache.get("pv") is ours


def test_an_object_that_is_gone_is_gone() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    cache.assume(changed(volume))
    objects.remove(PERSISTENT_VOLUME, "pv")
    assert cache.get("pv") is None
    assert list(cache.list()) == []


def test_nothing_is_assumed_of_an_older_version_or_of_what_is_not_there() -> None:
    volume = changed(a_volume("pv"), version="2")
    _, cache = a_cache(volume)
    with pytest.raises(AssumeError, match=r'"pv" is out of sync \(stored: 2, assume: 1\)'):
        cache.assume(changed(volume, version="1"))
    with pytest.raises(AssumeError, match='could not find object "gone"'):
        cache.assume(a_volume("gone"))
    assert cache.get("pv") is volume


def test_versions_that_cannot_be_compared_must_be_the_same() -> None:
    volume = changed(a_volume("pv"), version="a")
    _, cache = a_cache(volume)
    with pytest.raises(AssumeError, match=r'"pv" is out of sync \(stored: a, assume: b\)'):
        cache.assume(changed(volume, version="b"))


def test_what_was_written_is_known_before_it_is_shown_and_whatever_older_is_shown() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    written = changed(volume, version="10")
    cache.assume(written)
    objects.put(PERSISTENT_VOLUME, changed(volume, version="9"))
    assert cache.get("pv") is written
    objects.put(PERSISTENT_VOLUME, later := changed(volume, version="11"))
    assert cache.get("pv") is later


def test_objects_of_one_name_in_two_namespaces_are_two() -> None:
    objects = Objects()
    cache = AssumeCache(objects, PERSISTENT_VOLUME_CLAIM)
    here, there = a_claim("data", namespace="here"), a_claim("data", namespace="there")
    objects.put(PERSISTENT_VOLUME_CLAIM, here)
    objects.put(PERSISTENT_VOLUME_CLAIM, there)
    ours = a_claim("data", namespace="here", selected_node="n1")
    cache.assume(ours)
    assert (cache.get("data", "here"), cache.get("data", "there")) == (ours, there)


def test_whoever_listens_hears_of_what_is_known_before_and_after() -> None:
    volume = a_volume("pv")
    objects, cache = a_cache(volume)
    heard: list[tuple[PersistentVolume | None, PersistentVolume | None]] = []
    cache.listen(lambda old, new: heard.append((old, new)))
    ours, theirs = changed(volume), changed(volume, version="2")
    cache.assume(ours)
    objects.put(PERSISTENT_VOLUME, volume)
    cache.restore(ours)
    cache.assume(ours)
    objects.put(PERSISTENT_VOLUME, theirs)
    objects.remove(PERSISTENT_VOLUME, "pv")
    assert heard == [(volume, ours), (ours, volume), (volume, ours), (ours, theirs), (theirs, None)]
