"""Pods that wait because of other pods: affinity, anti-affinity, spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.integration.objects import REQUIRED, a_node, a_pod, a_taint, affinity_term, keep_apart_from
from tests.requeue.steps import (
    WEB,
    Scenario,
    allocatable,
    annotate,
    create,
    delete,
    finish,
    heartbeat,
    label,
    on,
    taint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.objects import JsonObject

ZONE: Final = "zone"
NODE: Final = a_node("node", labels={ZONE: "a"})
OTHER: Final = a_node("other-node", labels={ZONE: "b"})
PLAIN: Final = a_pod(WEB)
DB: Final = a_pod("db", labels={"app": "db"})
CACHE: Final = a_pod("cache", labels={"app": "cache"})
NO_COMPANY, TOO_CLOSE = "didn't match pod affinity rules", "didn't match pod anti-affinity rules"
GUARDED, SKEWED = "didn't satisfy existing pods anti-affinity rules", "didn't match pod topology spread constraints"
NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}


def near(*apps: str, **more: Any) -> JsonObject:
    terms = [{**affinity_term(app, ZONE), **more} for app in apps]
    return a_pod(WEB, affinity={"podAffinity": {REQUIRED: terms}})


def away_from(app: str, **more: Any) -> JsonObject:
    term = {**affinity_term(app, ZONE), **more}
    return a_pod(WEB, affinity={"podAntiAffinity": {REQUIRED: [term]}})


def spread(name: str = WEB, **more: Any) -> JsonObject:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraint |= {"labelSelector": {"matchLabels": {"app": "web"}}}
    return a_pod(name, labels={"app": "web"}, topologySpreadConstraints=[{**constraint, **more}])


def member(name: str) -> JsonObject:
    return a_pod(name, labels={"app": "web"})


GUARD: Final = a_pod("guard", affinity=keep_apart_from("web", ZONE))
CLOSED: Final = a_node("other-node", labels={ZONE: "b"}, taints=[a_taint("x")])  # a domain that nobody gets into

COMPANY: Mapping[str, Scenario] = {
    "nobody to be near to; such a pod wakes it; another must not": Scenario(
        pod=near("db"),
        because=NO_COMPANY,
        world=[NODE],
        must_not=[create(on(CACHE))],
        wakes=[create(on(DB))],
    ),
    "nobody to be near to; a pod that becomes one wakes it; one that becomes another must not": Scenario(
        pod=near("db"),
        because=NO_COMPANY,
        world=[NODE, on(CACHE)],
        must_not=[label(CACHE, app="queue"), annotate(CACHE, app="db")],
        wakes=[label(CACHE, app="db")],
    ),
    "nobody to be near to; such a pod wakes it; a deleted pod, room and taints must not": Scenario(
        pod=near("db"),
        because=NO_COMPANY,
        world=[NODE, on(CACHE)],
        must_not=[delete(CACHE), allocatable(NODE, cpu="64"), heartbeat(NODE)],
        wakes=[create(on(DB))],
    ),
    "nobody to be near to in its namespace; one there wakes it; one elsewhere must not": Scenario(
        pod=near("db"),
        because=NO_COMPANY,
        world=[NAMESPACE, NODE],
        must_not=[create(on(DB, namespace="elsewhere"))],
        wakes=[create(on(DB))],
    ),
    "nobody to be near to in another namespace; one there wakes it; one here must not": Scenario(
        pod=near("db", namespaces=["elsewhere"]),
        because=NO_COMPANY,
        world=[NAMESPACE, NODE],
        must_not=[create(on(DB))],
        wakes=[create(on(DB, namespace="elsewhere"))],
    ),
    "nobody to be near to in any namespace; one anywhere wakes it; another pod must not": Scenario(
        pod=near("db", namespaceSelector={}),
        because=NO_COMPANY,
        world=[NAMESPACE, NODE],
        must_not=[create(on(CACHE))],
        wakes=[create(on(DB, namespace="elsewhere"))],
    ),
    "the one to be near to is on a node without a zone; the zone wakes it; another label must not": Scenario(
        pod=near("db"),
        because=NO_COMPANY,
        world=[a_node("node"), on(DB)],
        must_not=[label(NODE, area="a")],
        wakes=[label(NODE, zone="a")],
    ),
    "the one to be near to is on a full node; a node in its zone wakes it; one without a zone must not": Scenario(
        pod=near("db"),
        because="Too many pods",
        world=[a_node("node", pods=1, labels={ZONE: "a"}), on(DB)],
        must_not=[annotate(NODE, note="x"), label(DB, tier="x")],
        wakes=[create(a_node("second", labels={ZONE: "a"}))],
    ),
    "one to keep away from; its end wakes it; the end of another must not": Scenario(
        pod=away_from("db"),
        because=TOO_CLOSE,
        world=[NODE, on(DB), on(CACHE)],
        must_not=[delete(CACHE)],
        wakes=[delete(DB)],
    ),
    "one to keep away from; another label on it wakes it; one more label must not": Scenario(
        pod=away_from("db"),
        because=TOO_CLOSE,
        world=[NODE, on(DB)],
        must_not=[label(DB, tier="x")],
        wakes=[label(DB, app="cache")],
    ),
    "one to keep away from; a node in another zone wakes it; room must not": Scenario(
        pod=away_from("db"),
        because=TOO_CLOSE,
        world=[NODE, on(DB)],
        must_not=[allocatable(NODE, cpu="64"), create(on(CACHE))],
        wakes=[create(OTHER)],
    ),
    "one to keep away from; a node that changes its zone wakes it; another label must not": Scenario(
        pod=away_from("db"),
        because=TOO_CLOSE,
        world=[NODE, a_node("second", labels={ZONE: "a"}), on(DB)],
        must_not=[label(a_node("second"), disk="ssd")],
        wakes=[label(a_node("second"), zone="b")],
    ),
    "one to keep away from; it finishes; a new pod of another kind must not wake it": Scenario(
        pod=away_from("db"),
        because=TOO_CLOSE,
        world=[NODE, on(DB)],
        must_not=[create(on(CACHE))],
        wakes=[finish(DB)],
    ),
    "one that keeps it away; its end wakes it; the end of another must not": Scenario(
        pod=member(WEB),
        because=GUARDED,
        world=[NODE, on(GUARD), on(CACHE)],
        must_not=[delete(CACHE)],
        wakes=[delete(GUARD)],
    ),
    "one that keeps it away; another label of the pod wakes it; an annotation must not": Scenario(
        pod=member(WEB),
        because=GUARDED,
        world=[NODE, on(GUARD)],
        must_not=[annotate(PLAIN, note="x")],
        wakes=[label(PLAIN, app="free")],
    ),
    "one to keep away from in another namespace; its end wakes it; the end of one here must not": Scenario(
        pod=away_from("db", namespaces=["elsewhere"]),
        because=TOO_CLOSE,
        world=[NAMESPACE, NODE, on(DB, namespace="elsewhere"), on(DB)],
        must_not=[delete(on(DB))],
        wakes=[delete(on(DB, namespace="elsewhere"))],
    ),
}

SPREAD: Mapping[str, Scenario] = {
    "a skew; the end of a pod on the full side wakes it; the end of another kind must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one")), on(CACHE)],
        must_not=[delete(CACHE)],
        wakes=[delete(member("one"))],
    ),
    "a skew; a pod on the full side that becomes another wakes it; one more label must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[label(member("one"), tier="x"), annotate(member("one"), note="x")],
        wakes=[label(member("one"), app="other")],
    ),
    "a skew; a pod on the empty side wakes it; one of another kind must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[create(on(CACHE, "other-node"))],
        wakes=[create(on(member("two"), "other-node"))],
    ),
    "a skew; the end of the empty side wakes it; room must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[allocatable(NODE, cpu="64"), heartbeat(CLOSED)],
        wakes=[delete(CLOSED)],
    ),
    "a skew; the empty side becomes open; a label there must not wake it": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[label(CLOSED, disk="ssd")],
        wakes=[taint(CLOSED)],
    ),
    "a skew; a node on the empty side wakes it; one in no zone must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[create(a_node("nowhere", taints=[a_taint("x")]))],
        wakes=[create(a_node("open", labels={ZONE: "b"}))],
    ),
    "a skew; the empty side joins the full one; another label must not wake it": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[label(CLOSED, area="a")],
        wakes=[label(CLOSED, zone="a")],
    ),
    "a skew; a pod on the full side finishes; a pod in another namespace must not wake it": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NAMESPACE, NODE, CLOSED, on(member("one"))],
        must_not=[create(on(member("two"), "other-node", "elsewhere"))],
        wakes=[finish(member("one"))],
    ),
    "a skew; another label of the pod wakes it; an annotation must not": Scenario(
        pod=spread(),
        because=SKEWED,
        world=[NODE, CLOSED, on(member("one"))],
        must_not=[annotate(PLAIN, note="x")],
        wakes=[label(PLAIN, app="other")],
    ),
    "a node in no zone; the zone wakes it; another label must not": Scenario(
        pod=spread(),
        because=f"{SKEWED} (missing required label)",
        world=[a_node("node")],
        must_not=[label(NODE, area="a"), allocatable(NODE, cpu="64")],
        wakes=[label(NODE, zone="a")],
    ),
    "too few zones; a node in a second one wakes it; one in no zone must not": Scenario(
        pod=spread(minDomains=2),
        because=SKEWED,
        world=[NODE, on(member("one"))],
        must_not=[create(a_node("nowhere"))],
        wakes=[create(OTHER)],
    ),
}

RELATIONS_TABLE: Mapping[str, Scenario] = {**COMPANY, **SPREAD}
