"""Which spread constraints hold for a pod: its own, or else those of the configuration.

A pod with any constraint of its own is judged by its own only.  For others the default constraints hold, with a
selector that is deduced from the services and the owner of the pod (`berth.plugins.pod_topology_spread.selectors`); a
pod with neither has no constraints.  Called by the filter, the score and the hints of PodTopologySpread.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/common.go.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from berth.api.pod import Pod, TopologySpreadConstraint
from berth.api.selectors import IN, Requirement, Selector, compile_label_selector
from berth.framework.handle import Handle
from berth.framework.plugin_args import PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.selectors import DefaultSelectors

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

_HONOR: Final = "Honor"
_SYSTEM: Final = "System"
_SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)
_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Constraint:
    """A compiled constraint.

    Attributes:
        max_skew: by how much a domain may exceed the emptiest one.
        topology_key: the label of nodes whose value makes a domain.
        selector: which pods of the namespace count.
        min_domains: with fewer domains than this the emptiest counts as empty.
        honors_affinity: whether nodes that the pod's own selectors rule out are left out.
        honors_taints: whether nodes with taints that the pod does not tolerate are left out.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class Constraints:
    """Finds the constraints of pods.

    Args:
        args: the default constraints; None for the built-in ones.
        handle: where services and owners are looked up.

    Attributes:
        any_default: whether there are default constraints.
        system_defaulted: whether they are the built-in ones.
    """

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        args = args or PodTopologySpreadArgs()
        self.system_defaulted = args.defaulting_type == _SYSTEM
        defaults = _SYSTEM_DEFAULTS if self.system_defaulted else args.default_constraints
        self.any_default = bool(defaults)
        self._merge_keys = handle.gates.enabled("MatchLabelKeysInPodTopologySpread")
        self._defaults = {
            action: tuple(_compiled(each, ()) for each in defaults if each.when_unsatisfiable == action)
            for action in (HARD, SOFT)
        }
        self._selectors = DefaultSelectors(handle.cluster.objects) if self.any_default else None

    def of(self, pod: Pod, action: str) -> tuple[Constraint, ...]:
        """The constraints of *pod* that are `HARD` or `SOFT`, in order.

        Raises:
            SelectorError: a selector of the pod cannot be parsed.
        """
        own = pod.spec.topology_spread_constraints
        if own:
            return tuple(self._own(each, pod) for each in own if each.when_unsatisfiable == action)
        defaults = self._defaults[action]
        if not defaults or self._selectors is None:
            return ()
        selector = self._selectors.of(pod)
        return () if selector.empty else _with_selector(defaults, selector)

    def _own(self, constraint: TopologySpreadConstraint, pod: Pod) -> Constraint:
        if not constraint.match_label_keys or not self._merge_keys:
            return _compiled(constraint, ())
        labels = pod.metadata.labels
        return _compiled(constraint, tuple((key, labels[key]) for key in constraint.match_label_keys if key in labels))


@lru_cache(maxsize=_REMEMBERED)
def _compiled(constraint: TopologySpreadConstraint, alike_in: tuple[tuple[str, str], ...]) -> Constraint:
    """The compiled form, for a pod that has the labels *alike_in* under ``matchLabelKeys``."""
    selector = compile_label_selector(constraint.label_selector)
    if selector.requirements is not None:
        also = (Requirement(key, IN, frozenset((value,))) for key, value in dict(alike_in).items())
        selector = Selector((*also, *selector.requirements))
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in (None, _HONOR),
        honors_taints=constraint.node_taints_policy == _HONOR,
    )


@lru_cache(maxsize=_REMEMBERED)
def _with_selector(constraints: tuple[Constraint, ...], selector: Selector) -> tuple[Constraint, ...]:
    return tuple(replace(each, selector=selector) for each in constraints)
