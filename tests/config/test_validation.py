from __future__ import annotations

from typing import Any

import pytest
from tests.config.builders import a_document, faults_of, names, with_profile


def an_extender(**fields: Any) -> dict[str, Any]:
    return {"urlPrefix": "http://127.0.0.1:8080", **fields}


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no workers": (a_document(parallelism=0), ["parallelism: Invalid value: 0: must be greater than 0"]),
    "a percentage above all": (
        a_document(percentageOfNodesToScore=101),
        ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
    ),
    "no first backoff": (
        a_document(podInitialBackoffSeconds=0),
        ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
    ),
    "a cap below the first backoff": (
        a_document(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4),
        ["podMaxBackoffSeconds: Invalid value: 4: must be greater than or equal to PodInitialBackoffSeconds"],
    ),
    "a negative burst": (
        a_document(clientConnection={"burst": -1}),
        ["clientConnection.burst: Invalid value: -1: must be non-negative"],
    ),
    "a lease no longer than the renewal": (
        a_document(leaderElection={"leaseDuration": "10s"}),
        ["leaderElection.leaseDuration: Invalid value: 10s: LeaseDuration must be greater than RenewDeadline"],
    ),
    "a renewal too short for its retries": (
        a_document(leaderElection={"renewDeadline": "6s", "retryPeriod": "5s"}),
        ["leaderElection.renewDeadline: Invalid value: 6s: must be greater than 1.2 times RetryPeriod (5s)"],
    ),
    "a negative retry period": (
        a_document(leaderElection={"retryPeriod": "-2s"}),
        ["leaderElection.retryPeriod: Invalid value: -2s: must be greater than zero"],
    ),
    "another kind of lock": (
        a_document(leaderElection={"resourceLock": "endpoints"}),
        ['leaderElection.resourceLock: Invalid value: "endpoints": resourceLock must be "leases"'],
    ),
    "two profiles, one without a name": (
        a_document(profiles=[{}, {"schedulerName": "a"}]),
        ["profiles[0].schedulerName: Required value"],
    ),
    "an empty name": (with_profile(schedulerName=""), ["profiles[0].schedulerName: Required value"]),
    "a name twice": (
        a_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]),
        ['profiles[1].schedulerName: Duplicate value: "a"'],
    ),
    "a profile's percentage": (
        with_profile(percentageOfNodesToScore=-1),
        ["profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
    ),
    "a removed plugin": (
        with_profile(plugins={"filter": {"enabled": names("NodeName", "EBSLimits")}}),
        [
            (
                'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": '
                "this plugin was removed; NodeVolumeLimits does its work"
            )
        ],
    ),
    "arguments of a removed plugin": (
        with_profile(pluginConfig=[{"name": "GCEPDLimits"}]),
        [
            (
                'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": '
                "this plugin was removed; NodeVolumeLimits does its work"
            )
        ],
    ),
    "arguments twice": (
        with_profile(pluginConfig=[{"name": "Cool"}, {"name": "Cool"}]),
        ['profiles[0].pluginConfig[1]: Duplicate value: "Cool"'],
    ),
    "two queue sorters": (
        with_profile(plugins={"queueSort": {"enabled": names("A", "B")}}),
        [
            (
                'profiles[0].plugins.queueSort.Enabled: Invalid value: ["A", "B"]: '
                "only one queue sort plugin can be enabled"
            )
        ],
    ),
    "profiles that sort differently": (
        a_document(
            profiles=[
                {"schedulerName": "a", "plugins": {"queueSort": {"enabled": names("A")}}},
                {"schedulerName": "b"},
            ]
        ),
        ["profiles[1].plugins.queueSort: Invalid value: []: has to match for all profiles"],
    ),
    "profiles that sort alike with other arguments": (
        a_document(
            profiles=[
                {
                    "schedulerName": name,
                    "plugins": {"queueSort": {"enabled": names("A")}},
                    "pluginConfig": [{"name": "A", "args": {"by": name}}],
                }
                for name in ("a", "b")
            ]
        ),
        ['profiles[1].pluginConfig.args: Invalid value: {"by": "b"}: has to match for all profiles'],
    ),
    "an extender that scores without weight": (
        a_document(extenders=[an_extender(prioritizeVerb="score")]),
        ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
    ),
    "two extenders that bind": (
        a_document(extenders=[an_extender(bindVerb="bind"), an_extender(bindVerb="bind")]),
        ['extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'],
    ),
    "a resource of two extenders": (
        a_document(extenders=[an_extender(managedResources=names("example.com/gpu")) for _ in range(2)]),
        [
            (
                'extenders[1].managedResources[0].name: Invalid value: "example.com/gpu": '
                "duplicate extender managed resource name"
            )
        ],
    ),
    "everything at once": (
        a_document(
            parallelism=-3,
            leaderElection={"leaseDuration": "-1s"},
            profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 200}],
            extenders=[an_extender(prioritizeVerb="x", weight=-1)],
        ),
        [
            "parallelism: Invalid value: -3: must be greater than 0",
            "leaderElection.leaseDuration: Invalid value: -1s: must be greater than zero",
            "leaderElection.leaseDuration: Invalid value: 10s: LeaseDuration must be greater than RenewDeadline",
            "profiles[0].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
            "extenders[0].weight: Invalid value: -1: must have a positive weight applied to it",
        ],
    ),
}


@pytest.mark.parametrize(("document", "lines"), REFUSED.values(), ids=REFUSED.keys())
def test_a_configuration_that_makes_no_sense_is_refused(document: dict[str, Any], lines: list[str]) -> None:
    assert faults_of(document) == lines


RESOURCE_NAMES = {
    "no domain": "gpu",
    "a native domain": "kubernetes.io/gpu",
    "a domain within the native one": "example.kubernetes.io/gpu",
    "a quota's name": "requests.example.com/gpu",
    "no qualified name": "example.com/gpu/two",
    "nothing": "",
}


@pytest.mark.parametrize("name", RESOURCE_NAMES.values(), ids=RESOURCE_NAMES.keys())
def test_an_extender_manages_only_extended_resources(name: str) -> None:
    document = a_document(extenders=[an_extender(managedResources=names(name))])
    assert faults_of(document) == [
        f'extenders[0].managedResources[0].name: Invalid value: "{name}": is an invalid extended resource name'
    ]


ACCEPTED: dict[str, dict[str, Any]] = {
    "leader election off leaves its fields unchecked": a_document(
        leaderElection={"leaderElect": False, "leaseDuration": "1s", "resourceLock": "endpoints"}
    ),
    "all nodes, and none": a_document(profiles=[{"percentageOfNodesToScore": 100}], percentageOfNodesToScore=0),
    "a negative rate": a_document(clientConnection={"qps": -1}),
    "a removed plugin where names are not checked": with_profile(
        plugins={"multiPoint": {"disabled": names("*"), "enabled": names("CinderLimits")}}
    ),
    "an unknown plugin, which only building the profile finds": with_profile(
        plugins={"score": {"enabled": names("NoSuchPlugin"), "disabled": names("NorThis")}}
    ),
    "profiles with one sorter": a_document(
        profiles=[
            {
                "schedulerName": name,
                "plugins": {"queueSort": {"enabled": names("A")}},
                "pluginConfig": [{"name": "A", "args": {"by": "age"}}],
            }
            for name in ("a", "b")
        ]
    ),
    "a complete extender": a_document(
        extenders=[
            an_extender(
                filterVerb="filter",
                preemptVerb="preempt",
                prioritizeVerb="score",
                weight=5,
                bindVerb="bind",
                enableHTTPS=True,
                tlsConfig={
                    "insecure": False,
                    "serverName": "extender",
                    "certFile": "/a",
                    "keyFile": "/b",
                    "caFile": "/c",
                    "certData": "YQ==",
                    "keyData": "Yg==",
                    "caData": "Yw==",
                },
                httpTimeout="100ms",
                nodeCacheCapable=True,
                managedResources=[{"name": "example.com/gpu", "ignoredByScheduler": True}],
                ignorable=True,
            )
        ]
    ),
}


@pytest.mark.parametrize("document", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_configuration_that_makes_sense_is_accepted(document: dict[str, Any]) -> None:
    assert faults_of(document) == []
