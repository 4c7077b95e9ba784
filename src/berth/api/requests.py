"""What a pod asks for, all containers and rules taken together.

Amounts are added as exact billionths and rounded once, at the end, as the reference does.  A pod in the middle of an
in-place resize is counted by what its spec asks for *and* by what its node has granted: the node may still hold either.

Source: k8s component-helpers/resource/helpers.go, ``PodRequests``; KEP-753 (sidecars), KEP-1287 (resize), KEP-2837
(pod-level resources).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from berth.api.pod import Container, ContainerStatus, Pod, ResourceList
from berth.api.quantity import milli, nano_value, whole
from berth.api.selectors import label_key_fault

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES_PREFIX: Final = "hugepages-"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."
_SCALAR_PREFIXES: Final = (HUGE_PAGES_PREFIX, "attachable-volumes-")

DEFAULT_CPU_NANO: Final = 100 * 10**6  # 100 milli-cores: what a container without a request counts as in some scores
DEFAULT_MEMORY_NANO: Final = 200 * 2**20 * 10**9  # 200 MiB, likewise
NON_ZERO_DEFAULTS: Final[Mapping[str, int]] = {CPU: DEFAULT_CPU_NANO, MEMORY: DEFAULT_MEMORY_NANO}

NanoAmounts = dict[str, int]  # resource name -> billionths
OfContainer = Callable[[Container], NanoAmounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """Which rules apply when a pod's requests are added up.

    Attributes:
        use_status: count what the node has granted, for pods that may be in the middle of a resize.
        pod_level: let ``spec.resources`` of the pod stand for the sum of its containers.
        non_missing: billionths that a container counts as where it does not name the resource.
        resize_by_totals: during a resize, take the largest of three totals (Kubernetes 1.37) instead of the total of
            each container's largest amount (1.36).
        node_allocatable_claims: add what device claims take from the node's own resources.
    """

    use_status: bool = False
    pod_level: bool = True
    non_missing: Mapping[str, int] | None = None
    resize_by_totals: bool = False
    node_allocatable_claims: bool = False


SPEC_ONLY: Final = RequestRules()
CONTAINERS_ONLY: Final = RequestRules(pod_level=False)
FOR_SCORE: Final = RequestRules(pod_level=False, non_missing=NON_ZERO_DEFAULTS)


def pod_requests(pod: Pod, rules: RequestRules = SPEC_ONLY) -> NanoAmounts:
    """All that *pod* asks for, in billionths by resource name.

    Raises:
        QuantityError: some amount is no quantity.

    Source:
        k8s component-helpers/resource/helpers.go, ``PodRequests``.
    """
    total = _containers_total(pod, rules)
    if rules.node_allocatable_claims:
        for claim in pod.status.node_allocatable_resource_claim_statuses:
            _add(total, _nano(claim.resources))
    if rules.pod_level and pod.spec.resources is not None:
        _apply_pod_level(total, pod, rules)
    _add(total, _nano(pod.spec.overhead))
    return total


def non_zero_requests(pod: Pod, rules: RequestRules, requests: NanoAmounts) -> tuple[int, int]:
    """CPU and memory, in billionths, with defaults for containers that do not name them.

    Args:
        pod: the pod.
        rules: as for *requests*; its ``non_missing`` is not looked at.
        requests: what `pod_requests` gave for the same pod and rules.

    Returns:
        CPU and memory.

    Source:
        k8s pkg/scheduler/framework/types.go, ``calculateResource``.
    """
    if has_pod_level_requests(pod):
        missing = {name: nano for name, nano in NON_ZERO_DEFAULTS.items() if name not in requests}
    else:
        missing = dict(NON_ZERO_DEFAULTS)
    if missing:
        rules = RequestRules(
            use_status=rules.use_status,
            pod_level=rules.pod_level,
            non_missing=missing,
            resize_by_totals=rules.resize_by_totals,
            node_allocatable_claims=rules.node_allocatable_claims,
        )
        requests = pod_requests(pod, rules)
    return requests.get(CPU, 0), requests.get(MEMORY, 0)


def may_hold_more(pod: Pod) -> bool:
    """Whether the node may have granted *pod* something else than its spec asks for, as in the middle of a resize."""
    status = pod.status
    if status.resources is not None or status.node_allocatable_resource_claim_statuses or _is_infeasible(pod):
        return True
    granted = (*status.container_statuses, *status.init_container_statuses)
    return any(each.resources is not None or each.allocated_resources is not None for each in granted)


def names_cpu_and_memory(pod: Pod) -> bool:
    """Whether every container asks for CPU and memory itself, so that no default amount stands in for either."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return all(CPU in each.resources.requests and MEMORY in each.resources.requests for each in containers)


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether the pod as a whole asks for something that it may ask for as a whole."""
    return pod.spec.resources is not None and any(map(_supported_at_pod_level, pod.spec.resources.requests))


def amount(name: str, nano: int) -> int:
    """Thousandths of a core for CPU, whole units for all other resources."""
    return milli(nano) if name == CPU else whole(nano)


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether *name* is a resource that an operator or device plugin made up.

    Source:
        k8s pkg/apis/core/v1/helper/helpers.go, ``IsExtendedResourceName``.
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_fault(_QUOTA_PREFIX + name)  # a quota must be able to name it


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts *name* at all, besides CPU, memory and ephemeral storage.

    Source:
        k8s pkg/scheduler/util/utils.go, ``IsScalarResourceName``.
    """
    return is_extended(name) or name.startswith(_SCALAR_PREFIXES) or "kubernetes.io/" in name


def _supported_at_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def _nano(resources: ResourceList | None) -> NanoAmounts:
    return {name: nano_value(text) for name, text in resources.items()} if resources else {}


def _add(total: NanoAmounts, more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _largest(amounts: Iterable[Mapping[str, int]]) -> NanoAmounts:
    result: NanoAmounts = {}
    for each in amounts:
        for name, nano in each.items():
            if name not in result or nano > result[name]:
                result[name] = nano
    return result


def _is_infeasible(pod: Pod) -> bool:
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    statuses = {status.name: status for status in pod.status.container_statuses}
    statuses.update((status.name, status) for status in pod.status.init_container_statuses)
    return statuses


def _containers_total(pod: Pod, rules: RequestRules) -> NanoAmounts:
    if not rules.use_status:
        return _aggregate(pod, rules, _spec_requests)
    statuses, infeasible = _statuses(pod), _is_infeasible(pod)
    if not rules.resize_by_totals:
        return _aggregate(pod, rules, lambda c: _largest_of_container(c, statuses, infeasible=infeasible))
    if not infeasible and not any(s.resources or s.allocated_resources for s in statuses.values()):
        return _aggregate(pod, rules, _spec_requests)
    return _largest_total(pod, rules, statuses, infeasible=infeasible)


def _largest_of_container(
    container: Container, statuses: Mapping[str, ContainerStatus], *, infeasible: bool
) -> NanoAmounts:
    status = statuses.get(container.name)
    spec = _nano(container.resources.requests)
    if status is None or status.resources is None:
        return spec
    granted = (_nano(status.resources.requests), _nano(status.allocated_resources))
    return _largest(granted if infeasible else (spec, *granted))


def _largest_total(
    pod: Pod, rules: RequestRules, statuses: Mapping[str, ContainerStatus], *, infeasible: bool
) -> NanoAmounts:
    def allocated(container: Container) -> NanoAmounts:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return _nano(status.allocated_resources)
        return {} if infeasible else _spec_requests(container)

    def actual(container: Container) -> NanoAmounts:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            return _nano(status.resources.requests)
        return allocated(container)

    def plain(container: Container) -> NanoAmounts:
        return {} if infeasible else _spec_requests(container)

    totals = [_aggregate(pod, rules, granted, plain) for granted in (allocated, actual)]
    if not infeasible:
        totals.append(_aggregate(pod, rules, _spec_requests))
    return _largest(totals)


def _aggregate(
    pod: Pod, rules: RequestRules, of_container: OfContainer, of_plain_init: OfContainer | None = None
) -> NanoAmounts:
    """Containers and sidecars together, or the largest moment of the start-up, whichever is more."""
    running: NanoAmounts = {}
    for container in pod.spec.containers:
        _add(running, _with_defaults(of_container(container), rules))
    sidecars: NanoAmounts = {}
    start_up: NanoAmounts = {}
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            asked = _with_defaults(of_container(container), rules)
            _add(running, asked)
            _add(sidecars, asked)
            moment: Mapping[str, int] = sidecars
        else:
            asked = _with_defaults((of_plain_init or _spec_requests)(container), rules)
            _add(asked, sidecars)
            moment = asked
        start_up = _largest((start_up, moment))
    return _largest((running, start_up))


def _spec_requests(container: Container) -> NanoAmounts:
    return _nano(container.resources.requests)


def _with_defaults(requests: NanoAmounts, rules: RequestRules) -> NanoAmounts:
    return {**rules.non_missing, **requests} if rules.non_missing else requests


def _apply_pod_level(total: NanoAmounts, pod: Pod, rules: RequestRules) -> None:
    if pod.spec.resources is None:
        return
    asked = _nano(pod.spec.resources.requests)
    granted = asked
    status = pod.status
    if rules.use_status and status.resources is not None:
        held = (_nano(status.resources.requests), _nano(status.allocated_resources))
        granted = _largest(held if _is_infeasible(pod) else (asked, *held))
    for name in asked:
        if _supported_at_pod_level(name):
            total[name] = granted.get(name, 0)
