"""Whatever happened before, what is kept from pod to pod gives the answer that a search from scratch gives."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.builders import a_cluster, a_handle
from tests.conformance.settings import configuration
from tests.property.judges import LONELY, Busiest, Calm, Company, Lonely, Membership, Moody, Share
from tests.property.pool import (
    FEW_NODES,
    KINDS,
    NODE_NAMES,
    SOUND_KINDS,
    VARIETIES,
    an_ordinary_node,
    kinds,
    named,
    named_node,
    nodes,
    sound_kinds,
)

from berth.cluster.cache import Cluster
from berth.cluster.pods import PodInfo
from berth.config.versions import row_of
from berth.framework.cycle_state import CycleState
from berth.framework.interface import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScoreNormalizer,
    ScorePlugin,
)
from berth.framework.profile import Profile
from berth.framework.run import run_pre_filter, run_pre_score
from berth.framework.status import Status
from berth.plugins.registry import IN_TREE
from berth.queueing.nominator import Nominator
from berth.runtime.assembly import build_profiles
from berth.scheduling.algorithm import Algorithm, Found, NoNodes
from berth.scheduling.verdicts import CycleError

if TYPE_CHECKING:
    from collections.abc import Collection

    from berth.api.meta import PodKey
    from berth.api.node import Node
    from berth.api.pod import Pod

P = TypeVar("P", bound=Plugin)

MINOR = "1.37"
SEED = 7
EVEN = 0.5


EXTRAS = {plugin.name: plugin for plugin in (Busiest, Calm, Company, Lonely, Membership, Moody, Share)}
IN_PLACE = ("ImageLocality", "NodeAffinity", "TaintToleration")  # in-tree plugins that may be missing


def the_profile(cluster: Cluster, extras: Collection[str], missing: Collection[str]) -> Profile:
    """The in-tree plugins but for some, and in the middle of them some that look at all sorts of things."""
    config = configuration(MINOR, None)
    (profile,) = build_profiles(config, row_of(MINOR), a_handle(cluster, minor=MINOR), IN_TREE).values()
    more = [EXTRAS[name](cluster) for name in sorted(extras)]

    def mixed(plugins: tuple[P, ...], point: type) -> tuple[P, ...]:
        own = tuple(plugin for plugin in plugins if plugin.name not in missing)
        middle = len(own) // 2
        return (*own[:middle], *(cast("P", plugin) for plugin in more if isinstance(plugin, point)), *own[middle:])

    score = mixed(profile.score, ScorePlugin)
    return dataclasses.replace(
        profile,
        pre_filter=mixed(profile.pre_filter, PreFilterPlugin),
        filter=mixed(profile.filter, FilterPlugin),
        pre_score=mixed(profile.pre_score, PreScorePlugin),
        score=score,
        weights={plugin.name: 1 + position % 3 for position, plugin in enumerate(score)},
        normalizers={plugin.name: plugin for plugin in score if isinstance(plugin, ScoreNormalizer)},
    )


def search(profile: Profile, cluster: Cluster, nominator: Nominator) -> Algorithm:
    return Algorithm(
        profile,
        cluster,
        nominator.pods_on,
        nominated_nodes=nominator.nodes,
        nomination_log=nominator,
        seed=SEED,
    )


def told(algorithm: Algorithm, pod: PodInfo, *, in_full: bool) -> dict[str, Any]:
    """All that a search tells, in words and by name."""
    try:
        outcome = algorithm.schedule(CycleState(), pod, 1, in_full=in_full)
    except CycleError as fault:
        return {"fault": str(fault)}
    if isinstance(outcome, NoNodes):
        return {"nodes": 0}
    if not isinstance(outcome, Found):
        return {
            "message": outcome.message,
            "blamed": outcome.unschedulable_plugins,
            "pending": outcome.pending_plugins,
            "answers": outcome.nodes.by_node() if outcome.nodes else {},
            "absent": outcome.absent,
        }
    names = [algorithm._table.name(row) for row in outcome.rows.tolist()]
    rejected = outcome.rejected()
    tale: dict[str, Any] = {"feasible": set(names), "answers": rejected.by_node(), "blamed": rejected.rejectors()}
    if outcome.scored is not None:
        tale["totals"] = dict(zip(names, outcome.scored.totals.tolist(), strict=True))
        tale["parts"] = {
            plugin: dict(zip(names, scores.tolist(), strict=True))
            for plugin, scores in outcome.scored.by_plugin.items()
        }
    return tale


def told_plainly(profile: Profile, cluster: Cluster, pod: PodInfo) -> dict[str, Any]:
    """The part of it that follows from asking all plugins, one after another, about each node by itself."""
    table, state = cluster.table, CycleState()
    narrowed = run_pre_filter(profile, state, pod)
    if not narrowed.status.ok or not len(table):
        return {}
    answers: dict[str, Status] = {}
    fits: list[int] = []
    for row in table.live_rows().tolist():
        if narrowed.node_names is not None and table.name(row) not in narrowed.node_names:
            continue
        answer = plain_answer(profile, state, pod, row)
        if answer is None:
            fits.append(row)
        else:
            answers[table.name(row)] = answer
    if not fits:
        return {"answers": answers}
    rows = np.array(fits, dtype=np.intp)
    if not run_pre_score(profile, state, pod, rows).ok:
        return {}
    totals = np.zeros(len(rows), dtype=np.int64)
    for scorer in profile.score:
        if scorer.name not in state.skip_score:
            scores = np.concatenate([scorer.score(state, pod, rows[[spot]]) for spot in range(len(rows))])
            normalizer = profile.normalizers.get(scorer.name)
            scores = normalizer.normalize(state, pod, scores) if normalizer else scores
            totals += scores * profile.weights[scorer.name]
    names = [table.name(row) for row in fits]
    return {"answers": answers, "feasible": set(names), "totals": dict(zip(names, totals.tolist(), strict=True))}


def plain_answer(profile: Profile, state: CycleState, pod: PodInfo, row: int) -> Status | None:
    """Why the pod does not fit one node; None if it does."""
    for plugin in profile.filter:
        if plugin.name not in state.skip_filter:
            (code,) = plugin.filter(state, pod, np.array([row], dtype=np.intp)).tolist()
            if code:
                return plugin.rejection(code).by(plugin.name)
    return None


class Kept(RuleBasedStateMachine):
    """One search that remembers, among events of every sort."""

    @initialize(chance=st.randoms(use_true_random=True))  # shrinking where it starts would only make starts alike
    def start(self, chance: Random) -> None:
        extras = {name for name in EXTRAS if chance.random() < EVEN}
        missing = {name for name in IN_PLACE if chance.random() < EVEN}
        self.plugins = extras, missing
        self.kinds = chance.sample(sorted(KINDS), chance.randint(1, 3))
        if "Lonely" in extras:
            self.kinds.append("small, and lonely")
        self.cluster = a_cluster(minor=MINOR)
        self.listed: dict[PodKey, Pod] = {}
        self.nominator = Nominator(self.listed.get)
        self.profile = the_profile(self.cluster, *self.plugins)
        assert self.profile.signers(), "every plugin can tell pods apart, or nothing is kept"
        self.algorithm = search(self.profile, self.cluster, self.nominator)
        self.forgetful = search(self.profile, self.cluster, self.nominator)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodInfo] = {}  # those that count somewhere, by uid
        self.births = self.checks = 0
        for name in chance.sample(NODE_NAMES, chance.choice((1, 4, 12))):
            self.set_node(
                named_node(chance.choice(VARIETIES), name) if chance.random() < EVEN else an_ordinary_node(name)
            )
        for _ in range(chance.randint(0, 12)):
            self.add_bound_pod(chance.choice(SOUND_KINDS), chance.choice(NODE_NAMES))

    # -- events ---------------------------------------------------------------------------------------------------

    @rule(node=nodes())
    def set_node(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self.cluster.set_node(node)

    @rule(name=FEW_NODES, uncordon=st.booleans())
    def touch_node(self, name: str, uncordon: bool) -> None:
        if name in self.nodes:
            node = self.nodes[name]
            self.set_node(replace(node, spec=replace(node.spec, unschedulable=not uncordon)))

    @rule(name=FEW_NODES)
    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.cluster.remove_node(name)

    def born(self, kind: str, **fields: Any) -> Pod:
        self.births += 1
        return named(KINDS[kind], f"p{self.births}", f"uid-{self.births}", **fields)

    @rule(kind=sound_kinds, name=FEW_NODES)
    def add_bound_pod(self, kind: str, name: str) -> None:
        pod = self.born(kind, on=name)
        self.cluster.add_pod(pod)
        self.pods[pod.uid] = self.cluster.info(pod)

    @rule(number=st.integers(0, 2), many=st.integers(1, 4), asking=st.booleans())
    def place(self, number: int, many: int, asking: bool) -> None:
        """Decide about some pods of one kind, and assume where they fit, as the cycle does."""
        for _ in range(many):
            info = self.cluster.info(self.born(self.kinds[number % len(self.kinds)]))
            try:
                outcome = self.algorithm.schedule(CycleState(), info, 1)
            except CycleError:
                return
            if isinstance(outcome, Found):
                placed = info.on(outcome.node_name)
                self.cluster.assume(placed, outcome.node_name)
                self.pods[info.uid] = placed
                if asking:
                    self.nothing_is_remembered_wrongly()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), elsewhere=st.none() | FEW_NODES)
    def confirm(self, data: st.DataObject, elsewhere: str | None) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        if self.cluster.is_assumed(self.pods[uid].uid):
            pod = self.pods[uid].on(elsewhere or self.pods[uid].pod.spec.node_name).pod
            self.cluster.add_pod(pod)
            self.pods[uid] = self.cluster.info(pod)

    @precondition(lambda self: self.bound())
    @rule(data=st.data())
    def relabel_bound_pod(self, data: st.DataObject) -> None:
        """A pod becomes lonely, or is no longer."""
        pod = self.pods[data.draw(st.sampled_from(self.bound()))].pod
        labels = {} if LONELY in pod.metadata.labels else {LONELY: ""}
        self.update(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    @precondition(lambda self: self.bound())
    @rule(data=st.data(), cpu=st.sampled_from(("1", "2")))
    def resize_bound_pod(self, data: st.DataObject, cpu: str) -> None:
        pod = self.pods[data.draw(st.sampled_from(self.bound()))].pod
        first, *others = pod.spec.containers
        first = replace(first, resources=replace(first.resources, requests={"cpu": cpu}))
        self.update(replace(pod, spec=replace(pod.spec, containers=(first, *others))))

    def bound(self) -> list[str]:
        return sorted(uid for uid, info in self.pods.items() if not self.cluster.is_assumed(info.uid))

    def update(self, pod: Pod) -> None:
        self.cluster.update_pod(pod)
        self.pods[pod.uid] = self.cluster.info(pod)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        """A pod is gone, or, if it was assumed, is forgotten."""
        info = self.pods.pop(data.draw(st.sampled_from(sorted(self.pods))))
        if self.cluster.is_assumed(info.uid):
            self.cluster.forget(info, info.pod.spec.node_name)
        else:
            self.cluster.remove_pod(info.pod)

    @rule(kind=kinds, name=FEW_NODES, priority=st.integers(-1, 1))
    def nominate(self, kind: str, name: str, priority: int) -> None:
        pod = self.born(kind, priority=priority, nominated=name)
        self.listed[pod.key] = pod
        self.nominator.add(self.cluster.info(pod))

    @precondition(lambda self: self.listed)
    @rule()
    def give_promises_up(self) -> None:
        for pod in self.listed.values():
            self.nominator.delete(pod.uid)
        self.listed.clear()

    # -- questions ------------------------------------------------------------------------------------------------

    @rule(kind=kinds, in_full=st.booleans(), nominated=FEW_NODES)
    def ask_for_a_promised_pod(self, kind: str, in_full: bool, nominated: str) -> None:
        self.check(kind, in_full=in_full, nominated=nominated)

    @invariant()
    def nothing_is_remembered_wrongly(self) -> None:
        """After each step, pods of one of the kinds are judged as by a search that remembers nothing."""
        if hasattr(self, "algorithm"):
            self.cluster.validate()
            self.checks += 1
            kind = self.kinds[self.checks % len(self.kinds)]
            self.check(kind, in_full=self.checks % 3 == 0)
            if self.checks % 12 == 0:
                self.check_against_a_new_cluster(kind)

    def check(self, kind: str, *, in_full: bool, nominated: str = "") -> None:
        info = self.cluster.info(self.born(kind, nominated=nominated))
        self.forgetful._classes._kept.clear()
        tale = told(self.algorithm, info, in_full=in_full)
        assert tale == told(self.forgetful, info, in_full=in_full)
        if not nominated and not len(self.nominator):
            plain = told_plainly(self.profile, self.cluster, info)
            for fact in plain.keys() & tale.keys():
                assert tale[fact] == plain[fact], fact

    def check_against_a_new_cluster(self, kind: str) -> None:
        """The same objects give the same answers, however they came."""
        cluster = a_cluster([self.nodes[name] for name in sorted(self.nodes)], minor=MINOR)
        for info in self.pods.values():
            cluster.assume(info, info.pod.spec.node_name)
        info = self.cluster.info(self.born(kind))
        afresh = search(the_profile(cluster, *self.plugins), cluster, self.nominator)
        assert told(self.algorithm, info, in_full=True) == told(afresh, info, in_full=True)

    def teardown(self) -> None:
        if hasattr(self, "algorithm"):
            for kind in self.kinds:
                self.check(kind, in_full=False)
                self.check_against_a_new_cluster(kind)


TestKept = Kept.TestCase
TestKept.settings = settings(max_examples=75, stateful_step_count=25, deadline=None)
