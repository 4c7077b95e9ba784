from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.queueing.heap import KeyedHeap

KEYS = st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just(0), st.just(0)),
    ),
    max_size=200,
)


def test_items_leave_by_order_and_equal_ones_by_arrival() -> None:
    heap: KeyedHeap[str, str] = KeyedHeap()
    for key, order in (("a", 2), ("b", 1), ("c", 1), ("d", 0)):
        heap.put(key, key.upper(), order)
    assert [heap.pop() for _ in range(5)] == ["D", "B", "C", "A", None]


def test_a_replacement_of_the_same_order_keeps_its_place() -> None:
    heap: KeyedHeap[str, str] = KeyedHeap()
    heap.put("a", "old", 1)
    heap.put("b", "b", 1)
    heap.put("a", "new", 1)
    assert [heap.pop(), heap.pop()] == ["new", "b"]


def test_removing_what_is_not_there_gives_nothing() -> None:
    heap: KeyedHeap[str, str] = KeyedHeap()
    assert heap.remove("a") is None
    assert heap.get("a") is None
    assert heap.peek() is None
    assert "a" not in heap


def test_dead_items_do_not_pile_up() -> None:
    heap: KeyedHeap[int, int] = KeyedHeap()
    heap.put(-1, -1, -1)
    for step in range(10_000):
        heap.put(step % 7, step, step)
    assert len(heap) == 8
    assert len(heap._heap) < 50


@settings(deadline=None)
@given(STEPS)
def test_it_does_what_a_sorted_list_does(steps: list[tuple[str, int, int]]) -> None:
    heap: KeyedHeap[int, int] = KeyedHeap()
    model: dict[int, tuple[int, int, int]] = {}  # key -> order, arrival, item
    for number, (action, key, order) in enumerate(steps):
        if action == "put":
            known = model.get(key)
            arrival = known[1] if known and known[0] == order else number
            model[key] = (order, arrival, number)
            heap.put(key, number, order)
        elif action == "remove":
            known = model.pop(key, None)
            assert heap.remove(key) == (known[2] if known else None)
        else:
            first = min(model, key=lambda k: model[k][:2], default=None)
            expected = model.pop(first)[2] if first is not None else None
            assert heap.peek() == expected
            assert heap.pop() == expected
        assert len(heap) == len(model)
        assert sorted(heap) == sorted(item for _, _, item in model.values())
