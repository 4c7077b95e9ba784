"""Properties that hold over the whole schema: the structs and the table of bounds are where bad values come from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect
from tests.config.builders import a_document, decoded, faults_of, names, with_args, with_profile

from berth.api.durations import Duration
from berth.api.pod import TopologySpreadConstraint
from berth.config.bounds import BOUNDS, Bounds
from berth.config.decode import decode_struct
from berth.config.documents import parse_document
from berth.config.encode import encode_config, to_yaml
from berth.config.types import ClientConnection, KubeSchedulerConfiguration, Profile
from berth.config.versions import ROWS
from berth.config.wire import ConfigurationV1
from berth.framework.plugin_args import (
    ARGS_BY_PLUGIN,
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.config.faults import Fault

ARGS = "profiles[0].pluginConfig[0].args"
unhurried = settings(deadline=None, max_examples=100)  # machines differ; nothing here is timed

# Where each struct with bounds stands in a document: how to put one there, and its path.
PLACES: dict[type[msgspec.Struct], tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    KubeSchedulerConfiguration: (lambda fields: a_document(podMaxBackoffSeconds=2**40, **fields), ""),
    ClientConnection: (lambda fields: a_document(clientConnection=fields), "clientConnection."),
    Profile: (lambda fields: with_profile(**fields), "profiles[0]."),
    DefaultPreemptionArgs: (lambda fields: with_args("DefaultPreemption", fields), f"{ARGS}."),
    InterPodAffinityArgs: (lambda fields: with_args("InterPodAffinity", fields), f"{ARGS}."),
    TopologySpreadConstraint: (
        lambda fields: with_args(
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}],
            },
        ),
        f"{ARGS}.defaultConstraints[0].",
    ),
    UtilizationShapePoint: (lambda fields: with_args("VolumeBinding", {"shape": [fields]}), f"{ARGS}.shape[0]."),
    VolumeBindingArgs: (lambda fields: with_args("VolumeBinding", fields), f"{ARGS}."),
}
BOUNDED = [(struct, bounds) for struct, table in BOUNDS.items() for bounds in table]


def outside(bounds: Bounds) -> st.SearchStrategy[int]:
    """Numbers that fit the type and break the bounds."""
    below = [] if bounds.least is None else [st.integers(-(2**31), bounds.least - 1)]
    above = [] if bounds.most is None else [st.integers(bounds.most + 1, 2**31 - 1)]
    return st.one_of(below + above)


def within(bounds: Bounds) -> st.SearchStrategy[int]:
    """Numbers that keep the bounds; zero is left out, since some defaults take its place."""
    return st.integers(max(1, bounds.least or 1), 2**31 - 1 if bounds.most is None else bounds.most)


@unhurried
@given(data=st.data())
def test_a_number_out_of_bounds_is_refused_with_its_path_and_value(data: st.DataObject) -> None:
    struct, bounds = data.draw(st.sampled_from(BOUNDED))
    place, path = PLACES[struct]
    value = data.draw(outside(bounds))
    (line, *_) = [line for line in faults_of(place({bounds.key: value})) if line.startswith(f"{path}{bounds.key}: ")]
    assert line == f"{path}{bounds.key}: Invalid value: {value}: {bounds.detail}"


@unhurried
@given(data=st.data())
def test_a_number_within_bounds_is_not_complained_of(data: st.DataObject) -> None:
    struct, bounds = data.draw(st.sampled_from(BOUNDED))
    place, path = PLACES[struct]
    told = faults_of(place({bounds.key: data.draw(within(bounds))}))
    assert not [line for line in told if line.startswith(f"{path}{bounds.key}: ")]


def leaves(cls: type[msgspec.Struct], path: str = "") -> list[tuple[str, inspect.Type]]:
    """Every scalar of a struct with its path, lists entered at index 0; map values and free values are left out."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return [leaf for field in info.fields for leaf in _leaves(field.type, f"{path}{field.encode_name}")]


def _leaves(kind: inspect.Type, path: str) -> list[tuple[str, inspect.Type]]:
    if isinstance(kind, inspect.UnionType):
        return [leaf for member in kind.types for leaf in _leaves(member, path)]
    if isinstance(kind, inspect.StructType):
        return leaves(kind.cls, f"{path}.")
    if isinstance(kind, inspect.VarTupleType):
        return _leaves(kind.item_type, f"{path}[0]")
    if isinstance(kind, inspect.AnyType | inspect.NoneType | inspect.DictType):
        return []
    return [(path, kind)]


def placed(path: str, value: Any) -> Any:
    """The value at *path*, wrapped in the objects and lists that lead there."""
    for part in reversed(path.replace("[0]", ".[0]").split(".")):
        value = [value] if part == "[0]" else {part: value}
    return value


STRUCTS: list[type[msgspec.Struct]] = [ConfigurationV1, *ARGS_BY_PLUGIN.values()]
LEAVES = [(cls, path, kind) for cls in STRUCTS for path, kind in leaves(cls)]
JSON_SCALARS = st.one_of(st.booleans(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False), st.text(max_size=5))


def fits(kind: inspect.Type, value: Any) -> bool:
    """Whether *value* is one of *kind*, said in another way than the decoder says it."""
    if isinstance(kind, inspect.DataclassType):
        return isinstance(value, str) and _is_duration(value)
    if isinstance(kind, inspect.IntType):
        return type(value) is int and (kind.ge is None or kind.le is None or kind.ge <= value <= kind.le)
    if isinstance(kind, inspect.FloatType):
        return type(value) in (int, float) and abs(value) <= 3.4028234663852886e38
    return type(value) is (bool if isinstance(kind, inspect.BoolType) else str)


def _is_duration(text: str) -> bool:
    try:
        Duration.parse(text)
    except ValueError:
        return False
    return True


@settings(deadline=None, max_examples=300)
@given(leaf=st.sampled_from(LEAVES), value=JSON_SCALARS)
def test_a_scalar_of_the_wrong_type_is_refused_with_its_path(
    leaf: tuple[type[msgspec.Struct], str, inspect.Type], value: Any
) -> None:
    cls, path, kind = leaf
    faults: list[Fault] = []
    decode_struct(placed(path, value), cls, "", faults)
    assert [fault.path for fault in faults] == ([] if fits(kind, value) else [path])


TOP_LEVEL = [field.encode_name for field in msgspec.structs.fields(ConfigurationV1)]
JSON_VALUES = st.recursive(
    st.none() | JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@unhurried
@given(document=st.dictionaries(st.sampled_from(TOP_LEVEL), JSON_VALUES))
def test_any_document_is_either_used_or_refused_with_lines(document: dict[str, Any]) -> None:
    for line in faults_of({**document, **a_document()}):
        assert line
        assert "\n" not in line


MINORS = [row.minor for row in ROWS]
KNOWN_PLUGINS = [plugin.name for plugin in ROWS[0].multi_point]
plugin_lists = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from([*KNOWN_PLUGINS, "Mine"]), "weight": st.integers(0, 9)}),
    max_size=4,
    unique_by=lambda plugin: str(plugin["name"]),
)
disabled_lists = st.lists(st.sampled_from([*KNOWN_PLUGINS, "*"]), max_size=3, unique=True)
seconds = st.integers(1, 10**6)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Documents that make sense, whatever they say."""
    retry = draw(seconds)
    return a_document(
        parallelism=draw(st.integers(1, 1000)),
        percentageOfNodesToScore=draw(st.integers(0, 100)),
        clientConnection={"qps": draw(st.floats(-100, 100, width=32)), "burst": draw(st.integers(0, 1000))},
        leaderElection={
            "leaderElect": draw(st.booleans()),
            "retryPeriod": f"{retry}ms",
            "renewDeadline": f"{2 * retry}ms",
            "leaseDuration": f"{3 * retry}ms",
        },
        profiles=[
            {
                "schedulerName": name,
                "plugins": {
                    point: {
                        "enabled": draw(plugin_lists),
                        "disabled": names(*draw(disabled_lists)),
                    }
                    for point in draw(st.lists(st.sampled_from(["multiPoint", "score", "filter"]), unique=True))
                },
                "pluginConfig": [
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": draw(st.integers(0, 100))}}
                ],
            }
            for name in draw(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=2, unique=True))
        ],
    )


@settings(deadline=None, max_examples=15)
@given(minor=st.sampled_from(MINORS), document=documents())
def test_what_is_written_reads_back_as_the_same(minor: str, document: dict[str, Any]) -> None:
    config = decoded(document, minor=minor)
    again = decoded(parse_document(to_yaml(config)), minor=minor)
    assert encode_config(again) == encode_config(config)
    assert [profile.plugins for profile in again.profiles] == [profile.plugins for profile in config.profiles]
    assert decoded(parse_document(json.dumps(encode_config(config))), minor=minor) == again
