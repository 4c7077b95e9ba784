from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.builders import a_document, decoded, faults_of, names, with_args, with_profile

from berth.api.durations import Duration
from berth.api.selectors import SelectorRequirement
from berth.config.faults import ConfigError
from berth.config.gates import default_gates
from berth.config.load import default_config, load_config, read_config
from berth.config.types import API_VERSION, KIND
from berth.config.versions import NEWEST
from berth.framework.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs

if TYPE_CHECKING:
    from pathlib import Path

GATES = default_gates(NEWEST)

IDENTITY: dict[str, tuple[Any, str]] = {
    "an empty document": (None, "Object 'Kind' is missing"),
    "no kind": ({"apiVersion": API_VERSION}, "Object 'Kind' is missing"),
    "no version": ({"kind": KIND}, "Object 'apiVersion' is missing"),
    "another kind": (
        {"kind": "Pod", "apiVersion": API_VERSION},
        f'no kind "Pod" is registered for version "{API_VERSION}"',
    ),
    "an older version": (
        {"kind": KIND, "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        f'no kind "{KIND}" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
    ),
    "arguments at the top": (
        {"kind": "NodeAffinityArgs", "apiVersion": API_VERSION},
        "couldn't decode as KubeSchedulerConfiguration, got NodeAffinityArgs",
    ),
    "a list": ([], ": Invalid value: []: the document must be an object".removeprefix(": ")),
}


@pytest.mark.parametrize(("document", "line"), IDENTITY.values(), ids=IDENTITY.keys())
def test_a_document_must_say_what_it_is(document: Any, line: str) -> None:
    assert faults_of(document) == [line]


DECODING: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown field at the top": (
        a_document(healthzBindAddress="0.0.0.0"),  # noqa: S104 -- a field that v1 no longer has
        ['strict decoding error: unknown field "healthzBindAddress"'],
    ),
    "names are case-sensitive": (a_document(Parallelism=4), ['strict decoding error: unknown field "Parallelism"']),
    "unknown fields anywhere": (
        a_document(leaderElection={"leader": True}, profiles=[{"name": "a", "plugins": {"score": {"enable": []}}}]),
        [
            'strict decoding error: unknown field "leaderElection.leader"',
            'strict decoding error: unknown field "profiles[0].name"',
            'strict decoding error: unknown field "profiles[0].plugins.score.enable"',
        ],
    ),
    "an unknown extension point": (
        with_profile(plugins={"prefilter": {}}),
        ['strict decoding error: unknown field "profiles[0].plugins.prefilter"'],
    ),
    "an unknown argument": (
        with_args("InterPodAffinity", {"hardPodAffinityWeigth": 3}),
        ['strict decoding error: unknown field "profiles[0].pluginConfig[0].args.hardPodAffinityWeigth"'],
    ),
    "an unknown field deep in arguments": (
        with_args(
            "NodeAffinity",
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerm": []}}},
        ),
        [
            (
                'strict decoding error: unknown field "profiles[0].pluginConfig[0].args.addedAffinity.'
                'requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm"'
            )
        ],
    ),
    "a word for a number": (
        a_document(parallelism="four"),
        ['parallelism: Invalid value: "four": must be a whole number'],
    ),
    "a fraction for a whole number": (
        a_document(parallelism=1.0),
        ["parallelism: Invalid value: 1.0: must be a whole number"],
    ),
    "a truth for a number": (
        a_document(parallelism=True),
        ["parallelism: Invalid value: true: must be a whole number"],
    ),
    "a number for a truth": (
        a_document(enableProfiling=1),
        ["enableProfiling: Invalid value: 1: must be true or false"],
    ),
    "a number for a duration": (
        a_document(leaderElection={"leaseDuration": 15}),
        ['leaderElection.leaseDuration: Invalid value: 15: must be a duration in quotes, such as "1m30s"'],
    ),
    "a duration without a unit": (
        a_document(leaderElection={"leaseDuration": "15"}),
        ['leaderElection.leaseDuration: Invalid value: "15": time: missing unit in duration "15"'],
    ),
    "a number for a text": (
        with_profile(schedulerName=7),
        ["profiles[0].schedulerName: Invalid value: 7: must be a string"],
    ),
    "an object for a list": (
        a_document(profiles={"schedulerName": "a"}),
        ['profiles: Invalid value: {"schedulerName": "a"}: must be a list'],
    ),
    "a list for an object": (a_document(leaderElection=[]), ["leaderElection: Invalid value: []: must be an object"]),
    "a number beyond 32 bits": (
        a_document(parallelism=2**31),
        ["parallelism: Invalid value: 2147483648: must fit in an int32"],
    ),
    "a number beyond 64 bits": (
        a_document(podMaxBackoffSeconds=2**63),
        ["podMaxBackoffSeconds: Invalid value: 9223372036854775808: must fit in an int64"],
    ),
    "a float beyond 32 bits": (
        a_document(clientConnection={"qps": 1e39}),
        ["clientConnection.qps: Invalid value: 1e+39: must fit in a float32"],
    ),
    "the kind of other arguments": (
        with_args("NodeAffinity", {"kind": "VolumeBindingArgs", "apiVersion": API_VERSION}),
        [
            (
                'profiles[0].pluginConfig[0].args.kind: Invalid value: "VolumeBindingArgs": '
                "args for plugin NodeAffinity must be NodeAffinityArgs"
            )
        ],
    ),
    "arguments that are no object": (
        with_args("NodeAffinity", []),
        ["profiles[0].pluginConfig[0].args: Invalid value: []: must be an object"],
    ),
    "faults of every kind, all told": (
        a_document(
            parallelism="x",
            profiles=[
                {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": "1", "a": 1}}], "b": 2},
                [],
            ],
        ),
        [
            'parallelism: Invalid value: "x": must be a whole number',
            'strict decoding error: unknown field "profiles[0].b"',
            "profiles[1]: Invalid value: []: must be an object",
            'profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: "1": must be a whole number',
            'strict decoding error: unknown field "profiles[0].pluginConfig[0].args.a"',
        ],
    ),
}


@pytest.mark.parametrize(("document", "lines"), DECODING.values(), ids=DECODING.keys())
def test_a_document_that_cannot_be_decoded_is_refused(document: dict[str, Any], lines: list[str]) -> None:
    assert faults_of(document) == lines


def test_the_point_after_group_failures_is_unknown_to_the_older_version() -> None:
    document = with_profile(plugins={"podGroupPostFilter": {"disabled": names("*")}})
    assert faults_of(document, minor="1.37") == []
    assert faults_of(document, minor="1.36") == [
        'strict decoding error: unknown field "profiles[0].plugins.podGroupPostFilter"'
    ]


def test_null_counts_as_absent() -> None:
    document = a_document(
        parallelism=None,
        leaderElection=None,
        clientConnection={"qps": None},
        extenders=None,
        profiles=[{"schedulerName": None, "plugins": {"score": None}, "pluginConfig": None}],
    )
    assert decoded(document) == default_config(NEWEST, GATES)


ARGS = {
    "without a kind": {"ignoredResources": ["example.com/gpu"]},
    "with its kind": {
        "kind": "NodeResourcesFitArgs",
        "apiVersion": API_VERSION,
        "ignoredResources": ["example.com/gpu"],
    },
}


@pytest.mark.parametrize("args", ARGS.values(), ids=ARGS.keys())
def test_arguments_become_the_plugins_struct(args: dict[str, Any]) -> None:
    profile = decoded(with_args("NodeResourcesFit", args)).profiles[0]
    assert profile.args_by_plugin()["NodeResourcesFit"] == NodeResourcesFitArgs(ignored_resources=("example.com/gpu",))


def test_arguments_of_plugins_from_elsewhere_stay_as_they_are() -> None:
    raw = {"kind": "CoolArgs", "apiVersion": "example.com/v1", "any": ["thing", 1]}
    assert decoded(with_args("Cool", raw)).profiles[0].args_by_plugin()["Cool"] == raw


@pytest.mark.parametrize("args", [None, {}])
def test_empty_arguments_are_the_defaults(args: Any) -> None:
    document = with_args("PodTopologySpread", args)
    given = decoded(document).profiles[0].args_by_plugin()
    assert given == default_config(NEWEST, GATES).profiles[0].args_by_plugin()


def test_api_values_within_arguments_are_decoded() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = decoded(with_args("NodeAffinity", {"addedAffinity": added})).profiles[0].args_by_plugin()["NodeAffinity"]
    assert isinstance(args, NodeAffinityArgs)
    assert args.added_affinity is not None
    required = args.added_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_expressions == (
        SelectorRequirement(key="disk", operator="In", values=("ssd",)),
    )


def test_a_file_is_read_decoded_defaulted_and_validated(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    identity = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    file.write_text(identity + "leaderElection:\n  leaseDuration: 1m\n", encoding="utf-8")
    assert load_config(file, NEWEST, GATES).leader_election.lease_duration == Duration.parse("60s")
    file.write_text(identity + "parallelism: 0\n", encoding="utf-8")
    assert read_config(file, NEWEST, GATES).parallelism == 0
    with pytest.raises(ConfigError, match="parallelism: Invalid value: 0: must be greater than 0"):
        load_config(file, NEWEST, GATES)


UNREADABLE = {
    "a missing file": (None, "No such file"),
    "a file that is no text": (b"\xff\xfe\x00", "utf-8"),
}


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_file_is_a_fault_that_names_it(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file, NEWEST, GATES)
    assert str(caught.value).startswith(f"cannot read configuration file {file}: ")
    assert reason in str(caught.value)
