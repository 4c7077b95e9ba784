"""The versioned store: one counter, a log per kind, bytes made once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.sandbox.kinds.catalogue import built_in
from berth.sandbox.storage.store import ExpiredError, Store, watch_line

TABLE = built_in("1.37")
PODS = TABLE.served("", "v1", "pods")
NODES = TABLE.served("", "v1", "nodes")
EVENTS = TABLE.served("", "v1", "events")
NEW_EVENTS = TABLE.served("events.k8s.io", "v1", "events")


def obj(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def test_every_write_of_any_kind_takes_the_next_version() -> None:
    store = Store()
    pod = store.put(PODS, ("default", "a"), obj("a"))
    node = store.put(NODES, ("", "n"), obj("n"))
    gone = store.remove(PODS, ("default", "a"))
    assert [node.version - pod.version, gone.version - node.version] == [1, 1]
    assert gone.obj["metadata"]["resourceVersion"] == str(store.version)


def test_what_is_handed_in_is_neither_copied_nor_changed() -> None:
    store = Store()
    spec: dict[str, Any] = {"containers": []}
    given = obj("a", spec=spec)
    entry = store.put(PODS, ("default", "a"), given)
    assert entry.obj["spec"] is spec
    assert "resourceVersion" not in given["metadata"]


def test_objects_come_in_the_order_of_namespace_and_name() -> None:
    store = Store()
    for key in (("b", "x"), ("a", "z"), ("a", "a"), ("ab", "m")):
        store.put(PODS, key, obj(key[1]))
    pods = store.collection(PODS)
    assert [entry.obj["metadata"]["name"] for entry in pods.entries()] == ["a", "z", "m", "x"]
    assert [entry.obj["metadata"]["name"] for entry in pods.entries("a")] == ["a", "z"]
    assert pods.entries("none") == []


def test_a_reader_resumes_right_after_the_version_it_has_seen() -> None:
    store = Store()
    first = store.put(PODS, ("d", "a"), obj("a"))
    store.put(NODES, ("", "n"), obj("n"))
    store.put(PODS, ("d", "b"), obj("b"))
    store.put(PODS, ("d", "a"), obj("a", spec={}))
    pods = store.collection(PODS)
    changes = pods.changes_from(pods.position_after(first.version))
    assert [(change.kind, change.key[1]) for change in changes] == [("ADDED", "b"), ("MODIFIED", "a")]


def test_a_reader_that_comes_too_late_is_told_the_oldest_version_that_is_left() -> None:
    store = Store(history=2)
    for name in "abcd":
        store.put(PODS, ("d", name), obj(name))
    pods = store.collection(PODS)
    with pytest.raises(ExpiredError) as error:
        pods.position_after(2)
    assert pods.position_after(error.value.oldest) == pods.end() - 2
    with pytest.raises(ExpiredError):
        pods.changes_from(0)


def test_compaction_leaves_only_readers_that_are_up_to_date() -> None:
    store = Store()
    before = store.put(PODS, ("d", "a"), obj("a")).version
    store.put(PODS, ("d", "a"), obj("a", spec={}))
    store.compact()
    pods = store.collection(PODS)
    with pytest.raises(ExpiredError):
        pods.position_after(before)
    assert pods.changes_from(pods.position_after(store.version)) == []


def test_all_watchers_get_the_same_bytes() -> None:
    store = Store()
    entry = store.put(PODS, ("d", "a"), obj("a"))
    (change,) = store.collection(PODS).changes_from(0)
    assert change.line(PODS, "ADDED") is change.line(PODS, "ADDED")
    assert entry.raw[1:] in change.line(PODS, "ADDED")


def test_a_line_is_one_json_object_with_type_and_object() -> None:
    line = watch_line("ADDED", b'{"kind":"Pod"}')
    assert json.loads(line) == {"type": "ADDED", "object": {"kind": "Pod"}}
    assert line.endswith(b"}\n")


def test_two_faces_of_one_collection_show_the_same_change_each_in_its_form() -> None:
    store = Store()
    store.put(EVENTS, ("d", "e"), obj("e", message="hello", involvedObject={"name": "x"}))
    (change,) = store.collection(NEW_EVENTS).changes_from(0)
    old, new = json.loads(change.line(EVENTS, "ADDED")), json.loads(change.line(NEW_EVENTS, "ADDED"))
    assert (old["object"]["message"], old["object"]["involvedObject"]) == ("hello", {"name": "x"})
    assert (new["object"]["note"], new["object"]["regarding"]) == ("hello", {"name": "x"})
    assert new["object"]["apiVersion"] == "events.k8s.io/v1"


def test_a_waker_is_called_after_each_change_until_it_is_ended() -> None:
    store = Store()
    seen: list[int] = []
    end = store.collection(PODS).subscribe(lambda: seen.append(store.version))
    store.put(PODS, ("d", "a"), obj("a"))
    store.put(NODES, ("", "n"), obj("n"))
    end()
    store.put(PODS, ("d", "b"), obj("b"))
    assert len(seen) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(0, 40))
def test_state_at_any_kept_version_plus_the_changes_after_it_is_the_state_now(
    writes: list[tuple[str, bool]], cut: int
) -> None:
    store = Store(history=10)
    pods = store.collection(PODS)
    states: list[tuple[int, dict[str, int]]] = []
    for name, remove in writes:
        if remove and pods.get(("d", name)) is not None:
            store.remove(PODS, ("d", name))
        elif not remove:
            store.put(PODS, ("d", name), obj(name))
        states.append((store.version, {e.obj["metadata"]["name"]: e.version for e in pods.entries()}))
    if not states:
        return
    version, state = states[min(cut, len(states) - 1)]
    try:
        changes = pods.changes_from(pods.position_after(version))
    except ExpiredError:
        assert len(writes) >= 20
        return
    for change in changes:
        if change.kind == "DELETED":
            del state[change.key[1]]
        else:
            assert (change.kind == "ADDED") == (change.key[1] not in state)
            state[change.key[1]] = change.entry.version
    assert state == states[-1][1]
