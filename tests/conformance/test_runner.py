"""The runner itself: what is right is equal, whatever is falsified is reported, and nothing is left out."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.__main__ import DIFFERENT, EQUAL, UNREADABLE, main
from tests.conformance.builders import PLACEHOLDER, UNTOLERATED, hint_document, scenario, written
from tests.conformance.compare import PARTS
from tests.conformance.records import Outcome
from tests.conformance.runner import ALL_PARTS, HINTS, Selection, run

FITS, STUCK, FOREIGN = 0, 1, 2

# Sentence -> (which pod, the falsified fields; None takes a field away, the parts that must differ).
FALSE_OUTCOMES: dict[str, tuple[int, dict[str, Any], set[str]]] = {
    "another pod is spoken of": (FITS, {"pod": "default/other"}, {"feasible"}),
    "a feasible node more is wanted": (FITS, {"feasible": ["free", "hard", "soft"]}, {"feasible"}),
    "a feasible node less is wanted": (FITS, {"feasible": ["free"]}, {"feasible"}),
    "a feasible node is wanted where none is": (STUCK, {"feasible": ["free"]}, {"feasible"}),
    "no feasible node is wanted where some are": (FITS, {"feasible": None}, {"feasible"}),
    "an error is wanted where none is": (STUCK, {"error": "out of order"}, {"feasible"}),
    "no error is wanted where one is": (FOREIGN, {"error": None}, {"feasible"}),
    "nodes before an error are wanted where none were looked at": (FOREIGN, {"feasible": ["free"]}, {"feasible"}),
    "another number of nodes is wanted": (FITS, {"numNodes": 4}, {"nodes"}),
    "another plugin rejects": (FITS, {"nodes": {"hard": {**UNTOLERATED, "plugin": "NodePorts"}}}, {"nodes"}),
    "another code rejects": (FITS, {"nodes": {"hard": {**UNTOLERATED, "code": "Unschedulable"}}}, {"nodes"}),
    "another reason rejects": (FITS, {"nodes": {"hard": {**UNTOLERATED, "reasons": ["moody"]}}}, {"nodes"}),
    "a further reason rejects": (
        FITS,
        {"nodes": {"hard": {**UNTOLERATED, "reasons": [*UNTOLERATED["reasons"], "x"]}}},
        {"nodes"},
    ),
    "nothing rejects": (FITS, {"nodes": None}, {"nodes"}),
    "a node more is rejected": (FITS, {"nodes": {"free": UNTOLERATED, "hard": UNTOLERATED}}, {"nodes"}),
    "the other nodes have another code": (FITS, {"absentNodes": {"code": "Unschedulable"}}, {"nodes"}),
    "the other nodes have a reason": (FITS, {"absentNodes": {**PLACEHOLDER, "reasons": ["x"]}}, {"nodes"}),
    "the other nodes have a plugin": (FITS, {"absentNodes": {**PLACEHOLDER, "plugin": "x"}}, {"nodes"}),
    "the other nodes have no status": (FITS, {"absentNodes": None}, {"nodes"}),
    "the pod is rejected before any node": (STUCK, {"preFilterMessage": "too late"}, {"nodes"}),
    "a rejecting plugin is not named": (STUCK, {"unschedulablePlugins": ["NodeAffinity"]}, {"nodes"}),
    "a rejecting plugin too many is named": (FITS, {"unschedulablePlugins": ["A", "TaintToleration"]}, {"nodes"}),
    "a score is another": (
        FITS,
        {"scores": {"free": {"TaintToleration": 299}, "soft": {"TaintToleration": 0}}},
        {"scores"},
    ),
    "a node is not scored": (FITS, {"scores": {"free": {"TaintToleration": 300}}}, {"scores"}),
    "a plugin more scores, with nothing": (
        FITS,
        {"scores": {"free": {"TaintToleration": 300, "X": 0}, "soft": {"TaintToleration": 0, "X": 0}}},
        {"scores"},
    ),
    "no plugin scores": (FITS, {"scores": {"free": {}, "soft": {}}}, {"scores"}),
    "a total is another": (FITS, {"totals": {"free": 300, "soft": 1}}, {"scores"}),
    "the best node is another": (FITS, {"best": ["soft"]}, {"best"}),
    "two nodes are the best": (FITS, {"best": ["free", "soft"]}, {"best"}),
    "a node is nominated": (STUCK, {"nominatedNode": "soft"}, {"preemption"}),
    "a pod is evicted": (STUCK, {"victims": ["default/fits"]}, {"preemption"}),
    "preemption was tried": (STUCK, {"postFilter": {"code": "Unschedulable"}}, {"preemption"}),
    "the message is another": (STUCK, {"message": "0/3 nodes are available: none"}, {"message"}),
    "there is no message": (STUCK, {"message": None}, {"message"}),
    "there is a message where there is none": (FITS, {"message": "sorry"}, {"message"}),
}

FALSE_ANSWERS: dict[str, list[list[dict[str, Any]]]] = {
    "an event is another": [
        [{"event": "NodeDelete", "plugins": {"NodeAffinity": "QueueSkip", "TaintToleration": "QueueSkip"}}]
    ],
    "an event is missing": [[]],
    "an event is there twice": [
        [{"event": "NodeAdd", "plugins": {"NodeAffinity": "QueueSkip", "TaintToleration": "QueueSkip"}}] * 2
    ],
    "an answer is another": [
        [{"event": "NodeAdd", "plugins": {"NodeAffinity": "QueueSkip", "TaintToleration": "Error"}}]
    ],
    "a plugin less answers": [[{"event": "NodeAdd", "plugins": {"NodeAffinity": "QueueSkip"}}]],
    "a plugin more answers": [
        [{"event": "NodeAdd", "plugins": {"NodeAffinity": "QueueSkip", "TaintToleration": "QueueSkip", "X": "Queue"}}]
    ],
}


def changed(document: dict[str, Any], position: int, fields: dict[str, Any]) -> dict[str, Any]:
    outcome = {**document["expect"][position], **fields}
    document["expect"][position] = {name: value for name, value in outcome.items() if value is not None}
    return document


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_right_vector_is_equal_in_every_part_and_counted_per_pod_and_change(tmp_path: Path, version: str) -> None:
    path = written(tmp_path, scenario(version=version), hint_document(version=version))
    report = run([path])
    counts = {row.part: (row.equal, row.total) for row in report.rows()}
    assert counts == {**dict.fromkeys(PARTS, (3, 3)), HINTS: (2, 2)}
    assert not report.differs
    assert report.differences() == []


@pytest.mark.parametrize(("position", "fields", "parts"), FALSE_OUTCOMES.values(), ids=FALSE_OUTCOMES)
def test_a_falsified_outcome_differs_in_its_part_alone(
    tmp_path: Path, position: int, fields: dict[str, Any], parts: set[str]
) -> None:
    document = changed(scenario(), position, fields)
    report = run([written(tmp_path, document)])
    assert {row.part for row in report.rows() if row.differs} == parts
    assert {(row.part, row.equal, row.total) for row in report.rows() if row.differs} == {(p, 2, 3) for p in parts}
    (difference,) = report.differences()
    assert (difference.name, difference.subject) == (document["name"], document["expect"][position]["pod"])
    assert "wanted" in difference.words or "missing" in difference.words or "too many" in difference.words


def test_every_field_of_an_outcome_is_falsified_by_some_case_except_the_node_to_go_on_with() -> None:
    falsified = {name for _, fields, _ in FALSE_OUTCOMES.values() for name in fields}
    assert falsified == set(Outcome.__struct_encode_fields__) - {"chosen"}
    assert {part for _, _, parts in FALSE_OUTCOMES.values() for part in parts} == set(PARTS)


@pytest.mark.parametrize("answers", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
def test_a_falsified_answer_makes_its_change_unequal(tmp_path: Path, answers: list[list[dict[str, Any]]]) -> None:
    document = hint_document()
    document["expect"][0] = answers[0]
    report = run([written(tmp_path, document)])
    assert [(row.part, row.equal, row.total) for row in report.rows()] == [(HINTS, 1, 2)]
    (difference,) = report.differences()
    assert difference.subject == "change 1 (add of Node)"


def test_the_pod_goes_where_the_vector_says_and_not_where_we_would_put_it(tmp_path: Path) -> None:
    document = changed(scenario(), FITS, {"chosen": "soft"})
    document["config"]["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "NodePorts"})
    for pod in document["pods"][:2]:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    document["pods"][1]["spec"]["nodeSelector"] = {}
    changed(
        document,
        STUCK,
        {
            "feasible": ["free"],
            "nodes": {
                "hard": UNTOLERATED,
                "soft": {
                    "code": "Unschedulable",
                    "plugin": "NodePorts",
                    "reasons": ["node(s) didn't have free ports for the requested pod ports"],
                },
            },
            "unschedulablePlugins": ["NodePorts", "TaintToleration"],
            "message": None,
        },
    )
    rows = run([written(tmp_path, document)], Selection(parts=("feasible", "nodes", "message"))).rows()
    assert [(row.equal, row.total) for row in rows] == [(3, 3)] * 3


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"version": "9.99"}, id="no such version is served"),
        pytest.param({"config": {**scenario()["config"], "surprise": True}}, id="the configuration is refused"),
        pytest.param({"objects": [{"kind": "Pod", "metadata": {"name": 7}}]}, id="an object cannot be read"),
    ],
)
def test_a_vector_that_breaks_off_is_unequal_throughout_and_the_next_one_is_run(
    tmp_path: Path, spoil: dict[str, Any]
) -> None:
    spoilt = [{**scenario(), "group": "spoilt", **spoil}, {**hint_document(), "group": "spoilt", **spoil}]
    report = run([written(tmp_path, *spoilt, scenario(), hint_document())])
    spoilt_rows = [row for row in report.rows() if row.group == "spoilt"]
    assert {row.part: (row.equal, row.total) for row in spoilt_rows} == {**dict.fromkeys(PARTS, (0, 3)), HINTS: (0, 2)}
    assert all(difference.words.startswith("broke off: ") for difference in report.differences())
    assert not any(row.differs for row in report.rows() if row.group != "spoilt")
    assert {(row.part, row.plugin): row.equal for row in report.plugin_rows() if row.group == "spoilt"} == {
        ("scores", "TaintToleration"): 0,
        (HINTS, "(events)"): 0,
        (HINTS, "NodeAffinity"): 0,
        (HINTS, "TaintToleration"): 0,
    }


def test_plugins_are_counted_one_by_one(tmp_path: Path) -> None:
    scores = {"free": {"TaintToleration": 300, "X": 0}, "soft": {"TaintToleration": 0, "X": 0}}
    document = changed(scenario(), FITS, {"scores": scores})
    report = run([written(tmp_path, document, hint_document())])
    counts = {(row.part, row.plugin): (row.equal, row.total) for row in report.plugin_rows()}
    assert counts == {
        ("scores", "TaintToleration"): (1, 1),
        ("scores", "X"): (0, 1),
        (HINTS, "(events)"): (2, 2),
        (HINTS, "NodeAffinity"): (2, 2),
        (HINTS, "TaintToleration"): (1, 1),
    }


def test_the_command_exits_with_0_if_all_is_equal_and_1_if_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = written(tmp_path, scenario(), name="right.jsonl")
    wrong = written(tmp_path, changed(scenario(), STUCK, {"message": "oh"}), hint_document(), name="deep/down/w.jsonl")
    assert main([str(right)]) == EQUAL
    assert main([str(tmp_path)]) == DIFFERENT
    told = capsys.readouterr().out
    assert "1.37  small  message     5/6" in told
    assert 'small/taints/d001 (1.37) default/stuck, message: message: wanted "oh", came "0/3 nodes' in told
    assert main([str(wrong), "--parts", "feasible,hints"]) == EQUAL
    assert main([str(tmp_path), "--parts", "message", "--groups", "small"]) == DIFFERENT


def test_the_command_reads_gzipped_files_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "v.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(changed(scenario(), FITS, {"best": ["soft"]})).encode()))
    assert main([str(path), "--json", "--by-plugin"]) == DIFFERENT
    content = json.loads(capsys.readouterr().out)
    assert {row["part"]: row["equal"] for row in content["rows"]} == {**dict.fromkeys(PARTS, 3), "best": 2}
    assert [row["plugin"] for row in content["plugins"]] == ["TaintToleration"]
    assert content["differences"][0]["subject"] == "default/fits"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("{", "truncated", id="no JSON"),
        pytest.param(json.dumps({**scenario(), "surprise": 1}), "surprise", id="a field that nobody knows"),
        pytest.param(json.dumps({**scenario(), "pods": []}), "0 questions, 3 expectations", id="pods without outcomes"),
    ],
)
def test_a_line_that_is_no_vector_ends_the_command_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, complaint: str
) -> None:
    path = tmp_path / "any.jsonl"
    path.write_text(f"{json.dumps(scenario())}\n{line}\n", encoding="utf-8")
    assert main([str(path)]) == UNREADABLE
    complained = capsys.readouterr().err
    assert f"{path}:2: " in complained
    assert complaint in complained


def test_it_is_an_error_to_compare_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == UNREADABLE
    assert main([str(tmp_path / "absent.jsonl")]) == UNREADABLE
    path = str(written(tmp_path, scenario()))
    assert main([path, "--groups", "tiny"]) == UNREADABLE
    assert main([path, "--parts", "hints"]) == UNREADABLE
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit, match="2"):
        main([path, "--parts", ",".join(ALL_PARTS) + ",looks"])
