"""The node table: rows, columns, marks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster, a_node, a_pod, a_port

from berth.api.node import Taint
from berth.cluster.nodes import CPU_INDEX, NodeTable

TEAM = Taint(key="team", effect="NoSchedule")


def changed(table: NodeTable, mark: object) -> list[int] | None:
    assert isinstance(mark, int)
    rows = table.changed_since(mark)  # type: ignore[arg-type] # a mark that went through an object
    return None if rows is None else rows.tolist()


def test_rows_are_kept_while_nodes_live_and_used_again_afterwards() -> None:
    table = NodeTable()
    rows = [table.set_node(a_node(name)) for name in ("a", "b", "c")]
    assert table.set_node(a_node("b", cpu="1")) == rows[1]
    table.remove_node("b")
    assert table.row_of("b") is None
    assert table.set_node(a_node("d", labels={"k": "v"})) == rows[1]
    assert table.live_rows().tolist() == sorted(rows)
    assert table.name(rows[1]) == "d"


def test_nothing_of_a_node_is_left_on_its_row() -> None:
    table = NodeTable()
    row = table.set_node(a_node("a", labels={"zone": "z"}, taints=[TEAM], unschedulable=True, images=[(["i:1"], 5)]))
    assert table.label("zone").get(row) == "z"
    table.remove_node("a")
    assert table.taints.get(row) == ()
    assert table.label("zone").get(row) is None
    assert not table.unschedulable[row]
    assert table.images.get("i:1") is None
    assert table.allocatable[:, row].tolist() == [0] * len(table.allocatable)
    assert table.allowed_pods[row] == 0


def test_the_table_grows_with_all_its_columns() -> None:
    table = NodeTable()
    zone = table.label("zone")
    for i in range(300):
        table.set_node(a_node(f"n{i}", cpu=str(i), labels={"zone": f"z{i % 3}"}, taints=[TEAM] if i % 2 else []))
    row = table.row_of("n299")
    assert row is not None
    assert (table.allocatable[CPU_INDEX, row], zone.get(row), table.taints.get(row)) == (299_000, "z2", (TEAM,))
    assert len(table) == 300
    assert {len(column) for column in (table.live, table.pod_count, zone.codes, table.taints.codes)} == {
        len(table.live)
    }


def test_a_resource_gets_a_column_when_it_is_first_named() -> None:
    table = NodeTable()
    assert table.resource_index("example.com/a") is None
    for i in range(9):
        table.set_node(a_node("n", allocatable={f"example.com/r{i}": str(i), "storage": "1"}))
    index = table.resource_index("example.com/r8")
    assert index is not None
    assert table.allocatable[index, 0] == 8
    assert table.resource_index("storage") is None


def test_a_label_column_is_made_late_and_kept_up_to_date() -> None:
    table = NodeTable()
    table.set_node(a_node("a", labels={"zone": "x"}))
    table.set_node(a_node("b"))
    zone = table.label("zone")
    assert [zone.get(row) for row in (0, 1)] == ["x", None]
    table.set_node(a_node("b", labels={"zone": "y"}))
    assert zone.get(1) == "y"
    assert table.label("zone") is zone


def test_marks_tell_which_rows_were_touched() -> None:
    cluster = a_cluster([a_node("a"), a_node("b"), a_node("c")])
    table, mark = cluster.table, cluster.table.mark()
    assert changed(table, mark) == []
    cluster.add_pod(a_pod("p", on="b"))
    cluster.set_node(a_node("a", cpu="1"))
    cluster.remove_pod(a_pod("p", on="b"))
    assert changed(table, mark) == [1, 0]
    cluster.remove_node("a")
    assert changed(table, mark) == [1, 0], "a row that lost its node was touched, too"


def test_a_mark_from_too_long_ago_means_all_rows() -> None:
    table = NodeTable()
    old = table.mark()
    for _ in range(70_000):
        table._log.touch(0)
    assert changed(table, old) is None


def test_a_what_if_leaves_no_trace_in_the_log() -> None:
    cluster = a_cluster([a_node("a")], [a_pod("p", on="a", cpu="1")])
    table, mark = cluster.table, cluster.table.mark()
    info = table.pods(0)[a_pod("p").uid]
    with table.restored():
        table.remove_pod(info.uid, "a")
        assert table.usage("a") == {}
        table.add_pod(info, "a")
    assert changed(table, mark) == []
    cluster.validate()


def test_ports_are_free_once_every_pod_that_took_them_is_gone() -> None:
    cluster = a_cluster([a_node("a")], [a_pod(name, on="a", ports=[a_port(80)]) for name in ("p", "q")])
    cluster.remove_pod(a_pod("p", on="a"))
    assert len(cluster.table.ports(0)) == 1
    cluster.remove_pod(a_pod("q", on="a"))
    assert cluster.table.ports(0) == {}
    assert cluster.table.rows_with_ports() == {}


def test_a_pod_that_is_not_there_cannot_be_taken_off() -> None:
    table = NodeTable()
    table.set_node(a_node("a"))
    with pytest.raises(KeyError, match="no corresponding pod uid-of-default-p in pods of node a"):
        table.remove_pod(a_pod("p").uid, "a")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=40))
@settings(deadline=None)
def test_columns_say_what_the_nodes_say(story: list[tuple[int, int, bool]]) -> None:
    table = NodeTable()
    for number, version, stays in story:
        name = f"n{number}"
        if stays or table.row_of(name) is None:
            table.set_node(
                a_node(
                    name, cpu=str(version), labels={"zone": f"z{version}"} if version else {}, taints=[TEAM][:version]
                )
            )
        else:
            table.remove_node(name)
    for row in table.live_rows().tolist():
        node = table.node(row)
        assert table.row_of(node.metadata.name) == row
        assert table.allocatable[CPU_INDEX, row] == 1000 * int(node.status.allocatable["cpu"])
        assert table.label("zone").get(row) == node.metadata.labels.get("zone")
        assert table.taints.get(row) == node.spec.taints
    assert not any(table.allocatable[:, row].any() for row in range(len(table.live)) if not table.live[row])
