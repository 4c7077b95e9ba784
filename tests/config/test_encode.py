from __future__ import annotations

import json

import pytest
import yaml
from tests.config.builders import a_document, decoded, names, with_profile

from berth.config.documents import parse_document
from berth.config.encode import encode_config, to_yaml
from berth.config.gates import default_gates
from berth.config.load import default_config
from berth.config.types import API_VERSION, KIND
from berth.config.versions import ROWS, VersionRow


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_the_defaults_read_back_as_they_were_written(row: VersionRow) -> None:
    config = default_config(row, default_gates(row))
    assert decoded(parse_document(to_yaml(config)), minor=row.minor) == config


def test_a_changed_configuration_reads_back() -> None:
    config = decoded(
        a_document(
            parallelism=4,
            clientConnection={"qps": 12.5, "kubeconfig": "/etc/k"},
            leaderElection={"leaderElect": False, "retryPeriod": "1500ms"},
            enableContentionProfiling=False,
            profiles=[
                {"schedulerName": "a", "percentageOfNodesToScore": 0},
                {
                    "schedulerName": "b",
                    "plugins": {
                        "multiPoint": {"disabled": names("ImageLocality", "NodePorts"), "enabled": names("NodePorts")},
                        "score": {"disabled": names("*"), "enabled": [{"name": "NodeAffinity", "weight": 9}]},
                    },
                    "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 0}}],
                },
            ],
            extenders=[
                {"urlPrefix": "http://a", "filterVerb": "f", "httpTimeout": "1m", "tlsConfig": {"insecure": True}},
                {"urlPrefix": "http://b", "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}]},
            ],
        )
    )
    again = decoded(parse_document(to_yaml(config)))
    assert encode_config(again) == encode_config(config)
    assert again.extenders == config.extenders
    assert [profile.plugins for profile in again.profiles] == [profile.plugins for profile in config.profiles]
    assert [profile.args_by_plugin() for profile in again.profiles] == [
        profile.args_by_plugin() for profile in config.profiles
    ]


def test_the_object_has_the_form_that_tools_expect() -> None:
    document = encode_config(default_config(ROWS[0], default_gates(ROWS[0])))
    assert (document["apiVersion"], document["kind"]) == (API_VERSION, KIND)
    assert document["leaderElection"]["leaseDuration"] == "15s"
    assert document["clientConnection"]["qps"] == 50
    assert isinstance(document["clientConnection"]["qps"], int)
    (profile,) = document["profiles"]
    assert profile["plugins"]["filter"] == {}
    assert profile["plugins"]["multiPoint"]["enabled"][4] == {"name": "TaintToleration", "weight": 3}
    assert profile["pluginConfig"][2] == {
        "name": "InterPodAffinity",
        "args": {
            "apiVersion": API_VERSION,
            "kind": "InterPodAffinityArgs",
            "hardPodAffinityWeight": 1,
            "ignorePreferredTermsOfExistingPods": False,
        },
    }
    assert json.loads(json.dumps(document)) == document
    assert "&id" not in to_yaml(default_config(ROWS[0], default_gates(ROWS[0]))), "no YAML anchors"


def test_only_enabled_plugins_arguments_are_written_by_name() -> None:
    config = decoded(
        with_profile(
            plugins={"multiPoint": {"disabled": names("*"), "enabled": names("Zeta", "NodeAffinity")}},
            pluginConfig=[
                {"name": "Zeta", "args": {"any": "thing"}},
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 3}},
            ],
        )
    )
    (profile,) = yaml.safe_load(to_yaml(config))["profiles"]
    assert [entry["name"] for entry in profile["pluginConfig"]] == ["NodeAffinity", "Zeta"]
    assert profile["pluginConfig"][1]["args"] == {"any": "thing"}
