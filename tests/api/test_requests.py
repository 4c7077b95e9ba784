"""Effective requests of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_container, a_pod

from berth.api.meta import Condition
from berth.api.pod import Container, ContainerStatus, NodeAllocatableResourceClaimStatus, Pod, ResourceRequirements
from berth.api.quantity import QuantityError
from berth.api.requests import (
    SPEC_ONLY,
    RequestRules,
    amount,
    is_extended,
    is_scalar,
    may_hold_more,
    names_cpu_and_memory,
    pod_requests,
)
from berth.cluster.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STATUS_1_36 = RequestRules(use_status=True)
STATUS_1_37 = RequestRules(use_status=True, resize_by_totals=True)
INFEASIBLE = Condition(type="PodResizePending", reason="Infeasible")
DEFERRED = Condition(type="PodResizePending", reason="Deferred")


def cpu_milli(pod: Pod, rules: RequestRules = SPEC_ONLY) -> int:
    return amount("cpu", pod_requests(pod, rules).get("cpu", 0))


def needs(cpu: str | None, name: str = "main", *, sidecar: bool = False) -> Container:
    return a_container(name, cpu=cpu, sidecar=sidecar)


def granted(name: str, *, actual: str | None = None, allocated: str | None = None) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        resources=None if actual is None else ResourceRequirements(requests={"cpu": actual}),
        allocated_resources=None if allocated is None else {"cpu": allocated},
    )


def whole_pod(**requests: str) -> dict[str, ResourceRequirements]:
    return {"resources": ResourceRequirements(requests=requests)}


SPECS: Mapping[str, tuple[Pod, int]] = {
    "a container": (a_pod(cpu="500m"), 500),
    "containers add up": (a_pod(containers=[needs("500m"), needs("250m", "b")]), 750),
    "amounts add up before they are rounded": (a_pod(containers=[needs("400u"), needs("400u", "b")]), 1),
    "the start-up may need more": (a_pod(cpu="500m", init_containers=[needs("700m", "i")]), 700),
    "init containers run one after the other": (
        a_pod(cpu="100m", init_containers=[needs("300m", "i"), needs("200m", "j")]),
        300,
    ),
    "a sidecar runs beside the containers": (
        a_pod(cpu="500m", init_containers=[needs("700m", "s", sidecar=True)]),
        1200,
    ),
    "a sidecar runs beside later init containers": (
        a_pod(cpu="100m", init_containers=[needs("300m", "s", sidecar=True), needs("500m", "i")]),
        800,
    ),
    "a sidecar does not run beside earlier ones": (
        a_pod(cpu="500m", init_containers=[needs("700m", "i"), needs("700m", "s", sidecar=True)]),
        1200,
    ),
    "overhead is added": (a_pod(cpu="500m", spec={"overhead": {"cpu": "100m"}}), 600),
    "the pod as a whole stands for its containers": (a_pod(cpu="500m", spec=whole_pod(cpu="1200m")), 1200),
    "the pod as a whole stands for its start-up": (
        a_pod(cpu="500m", init_containers=[needs("2", "i")], spec=whole_pod(cpu="1200m")),
        1200,
    ),
    "overhead is added to the pod as a whole": (
        a_pod(spec={**whole_pod(cpu="1"), "overhead": {"cpu": "100m"}}),
        1100,
    ),
    "the pod as a whole may ask for something else only": (a_pod(cpu="500m", spec=whole_pod(memory="1Gi")), 500),
    "no containers": (a_pod(containers=[]), 0),
}


@pytest.mark.parametrize(("pod", "want"), SPECS.values(), ids=SPECS.keys())
def test_what_a_spec_asks_for(pod: Pod, want: int) -> None:
    assert cpu_milli(pod) == want
    assert cpu_milli(pod, STATUS_1_36) == want
    assert cpu_milli(pod, STATUS_1_37) == want


def test_names_that_a_pod_as_a_whole_may_not_ask_for_are_not_looked_at() -> None:
    pod = a_pod(requests={"example.com/gpu": "1"}, spec=whole_pod(**{"example.com/gpu": "5", "hugepages-2Mi": "4Mi"}))
    assert PodInfo(pod).asked == {"example.com/gpu": 1, "hugepages-2Mi": 4 * 2**20}


def test_a_malformed_amount_is_told() -> None:
    with pytest.raises(QuantityError, match="got 'lots'"):
        pod_requests(a_pod(cpu="lots"))


def resizing(spec: str, condition: Condition | None = None, **grants: str) -> Pod:
    conditions = () if condition is None else (condition,)
    return a_pod(cpu=spec, status={"conditions": conditions, "container_statuses": (granted("main", **grants),)})


RESIZES: Mapping[str, tuple[Pod, int, int]] = {
    "deferred: the larger spec counts": (resizing("700m", DEFERRED, actual="500m", allocated="500m"), 700, 700),
    "infeasible: what is granted counts": (resizing("700m", INFEASIBLE, actual="500m", allocated="500m"), 500, 500),
    "in progress: what is granted counts": (resizing("500m", None, actual="700m", allocated="500m"), 700, 700),
    "allocated but not actuated": (resizing("300m", None, actual="200m", allocated="700m"), 700, 700),
    "without actual amounts, 1.36 looks at the spec only": (resizing("300m", None, allocated="700m"), 300, 700),
    "two containers at their largest at different times": (
        a_pod(
            containers=[needs("500m", "a"), needs("500m", "b")],
            status={
                "container_statuses": (
                    granted("a", actual="1", allocated="200m"),
                    granted("b", actual="200m", allocated="1"),
                )
            },
        ),
        2000,
        1200,
    ),
    "plain init containers ignore their status": (
        a_pod(
            cpu="500m",
            init_containers=[needs("700m", "i")],
            status={"init_container_statuses": (granted("i", actual="2", allocated="2"),)},
        ),
        700,
        700,
    ),
    "sidecars count as granted": (
        a_pod(
            cpu="500m",
            init_containers=[needs("100m", "s", sidecar=True)],
            status={"init_container_statuses": (granted("s", actual="200m", allocated="100m"),)},
        ),
        700,
        700,
    ),
    "infeasible: containers without a grant count nothing since 1.37": (
        a_pod(
            containers=[needs("500m", "a"), needs("500m", "b")],
            status={
                "conditions": (INFEASIBLE,),
                "container_statuses": (granted("a", actual="200m", allocated="200m"),),
            },
        ),
        700,
        200,
    ),
    "the pod as a whole, granted more": (
        a_pod(
            spec=whole_pod(cpu="500m"),
            status={
                "resources": ResourceRequirements(requests={"cpu": "700m"}),
                "allocated_resources": {"cpu": "600m"},
            },
        ),
        700,
        700,
    ),
}


@pytest.mark.parametrize(("pod", "v1_36", "v1_37"), RESIZES.values(), ids=RESIZES.keys())
def test_what_a_pod_takes_in_the_middle_of_a_resize(pod: Pod, v1_36: int, v1_37: int) -> None:
    assert (cpu_milli(pod, STATUS_1_36), cpu_milli(pod, STATUS_1_37)) == (v1_36, v1_37)
    assert may_hold_more(pod)


MIB = 2**20
NON_ZERO: Mapping[str, tuple[Pod, tuple[int, int]]] = {
    "nothing asked for": (a_pod(), (100, 200 * MIB)),
    "zero asked for stays zero": (a_pod(cpu="0", memory="0"), (0, 0)),
    "only memory asked for": (a_pod(memory="1"), (100, 1)),
    "each container counts": (a_pod(containers=[needs(None), needs("1", "b")]), (1100, 400 * MIB)),
    "init containers count": (a_pod(cpu="1m", memory="1", init_containers=[needs(None, "i")]), (100, 200 * MIB)),
    "no containers": (a_pod(containers=[]), (0, 0)),
    "the pod as a whole asks for both": (a_pod(spec=whole_pod(cpu="1", memory="2")), (1000, 2)),
    "the pod as a whole asks for memory": (a_pod(spec=whole_pod(memory="2")), (100, 2)),
    "the pod as a whole asks for cpu": (a_pod(spec=whole_pod(cpu="1")), (1000, 200 * MIB)),
    "the overhead asks for cpu": (
        a_pod(spec={**whole_pod(memory="2"), "overhead": {"cpu": "50m"}}),
        (50, 2),
    ),
    "infeasible, and granted nothing": (
        a_pod(cpu="1", memory="1", status={"conditions": (INFEASIBLE,)}),
        (100, 200 * MIB),
    ),
}


@pytest.mark.parametrize(("pod", "want"), NON_ZERO.values(), ids=NON_ZERO.keys())
def test_defaults_stand_in_where_nothing_is_asked_for(pod: Pod, want: tuple[int, int]) -> None:
    assert PodInfo(pod, STATUS_1_37).taken_non_zero == want


def test_claims_on_the_node_itself_are_added_with_their_rule_only() -> None:
    claim = NodeAllocatableResourceClaimStatus(resource_claim_name="c", resources={"cpu": "50m"})
    pod = a_pod(cpu="100m", status={"node_allocatable_resource_claim_statuses": (claim,)})
    whole = a_pod(cpu="100m", spec=whole_pod(cpu="700m"), status={"node_allocatable_resource_claim_statuses": (claim,)})
    with_claims = RequestRules(use_status=True, node_allocatable_claims=True)
    assert cpu_milli(pod, STATUS_1_36) == 100
    assert cpu_milli(pod, with_claims) == 150
    assert cpu_milli(whole, with_claims) == 700


KINDS: Mapping[str, tuple[bool, bool]] = {
    "cpu": (False, False),
    "storage": (False, False),
    "example.com/gpu": (True, True),
    "requests.example.com/gpu": (False, False),
    "example.com/-bad": (False, False),
    "exam_ple.com/gpu": (False, False),
    "example.com/": (False, False),
    "kubernetes.io/thing": (False, True),
    "sub.kubernetes.io/thing": (False, True),
    "deviceclass.resource.kubernetes.io/gpu": (False, True),
    "hugepages-2Mi": (False, True),
    "attachable-volumes-aws-ebs": (False, True),
}


@pytest.mark.parametrize(("name", "want"), KINDS.items())
def test_kinds_of_resource_names(name: str, want: tuple[bool, bool]) -> None:
    assert (is_extended(name), is_scalar(name)) == want


amounts = st.sampled_from([None, "0", "100m", "1500u", "1", "7"])
mains = st.lists(amounts, min_size=1, max_size=3)
inits = st.lists(st.tuples(amounts, st.booleans()), max_size=4)


def moments(main: Sequence[str | None], init: Sequence[tuple[str | None, bool]]) -> list[list[str]]:
    """Which amounts are needed together, at each moment of the life of a pod."""
    beside: list[str | None] = []
    together: list[list[str | None]] = []
    for cpu, sidecar in init:
        together.append([*beside, cpu])
        if sidecar:
            beside.append(cpu)
    together.append([*beside, *main])
    return [[cpu for cpu in each if cpu is not None] for each in together]


@given(main=mains, init=inits)
@settings(deadline=None)
def test_a_pod_asks_for_its_neediest_moment(main: list[str | None], init: list[tuple[str | None, bool]]) -> None:
    pod = a_pod(
        containers=[needs(cpu, f"c{i}") for i, cpu in enumerate(main)],
        init_containers=[needs(cpu, f"i{i}", sidecar=sidecar) for i, (cpu, sidecar) in enumerate(init)],
    )
    nano = {"0": 0, "100m": 10**8, "1500u": 1_500_000, "1": 10**9, "7": 7 * 10**9}
    want = max(sum(nano[cpu] for cpu in each) for each in moments(main, init))
    assert pod_requests(pod).get("cpu", 0) == want


statuses = st.builds(
    granted, st.sampled_from(["main", "s", "i"]), actual=st.none() | amounts, allocated=st.none() | amounts
)


@given(
    main=amounts,
    init=st.sampled_from([(), ("i",), ("s",), ("i", "s")]),
    grants=st.lists(statuses, max_size=3),
    condition=st.sampled_from([(), (INFEASIBLE,), (DEFERRED,), (DEFERRED, INFEASIBLE)]),
    rules=st.sampled_from([STATUS_1_36, STATUS_1_37]),
    at_pod_level=st.sampled_from([None, {}, {"cpu": "3"}]),
)
@settings(deadline=None)
def test_what_pod_infos_take_shortcuts_for_is_what_the_rules_say(
    main: str | None,
    init: tuple[str, ...],
    grants: list[ContainerStatus],
    condition: tuple[Condition, ...],
    rules: RequestRules,
    at_pod_level: dict[str, str] | None,
) -> None:
    pod = a_pod(
        cpu=main,
        memory="1",
        init_containers=[a_container(name, cpu=main, memory="1", sidecar=name == "s") for name in init],
        spec={"resources": None if at_pod_level is None else ResourceRequirements(requests=at_pod_level)},
        status={"conditions": condition, "container_statuses": tuple(grants)},
    )
    info = PodInfo(pod, rules)
    assert info.taken == {name: amount(name, nano) for name, nano in pod_requests(pod, rules).items()}
    for_score = RequestRules(pod_level=False, non_missing={"cpu": 10**8, "memory": 200 * MIB * 10**9})
    assert info.asked_for_score == {name: amount(name, nano) for name, nano in pod_requests(pod, for_score).items()}
    if names_cpu_and_memory(pod) and not may_hold_more(pod):
        assert info.taken_non_zero == (info.taken["cpu"], info.taken["memory"])
