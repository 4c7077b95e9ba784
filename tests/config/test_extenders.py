from __future__ import annotations

from typing import Any

import pytest
from tests.config.builders import a_document, decoded, names

from berth.config.extenders import inject_ignored_resources
from berth.config.faults import ConfigError


def an_extender(*resources: tuple[str, bool]) -> dict[str, Any]:
    managed = [{"name": name, "ignoredByScheduler": ignored} for name, ignored in resources]
    return {"urlPrefix": "http://127.0.0.1", "managedResources": managed}


def test_resources_that_extenders_look_after_replace_those_that_fit_ignores() -> None:
    config = decoded(
        a_document(
            profiles=[
                {
                    "schedulerName": "a",
                    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/old"]}}],
                },
                {"schedulerName": "b"},
            ],
            extenders=[
                an_extender(("example.com/gpu", True), ("example.com/nic", False)),
                an_extender(("example.com/fpga", True)),
            ],
        )
    )
    for profile in inject_ignored_resources(config).profiles:
        args = profile.args_by_plugin()["NodeResourcesFit"]
        assert args.ignored_resources == ("example.com/gpu", "example.com/fpga")


def test_without_such_resources_nothing_changes() -> None:
    config = decoded(a_document(extenders=[an_extender(("example.com/gpu", False))]))
    assert inject_ignored_resources(config) is config


def test_a_profile_without_arguments_for_fit_is_an_error() -> None:
    config = decoded(
        a_document(
            profiles=[{"plugins": {"multiPoint": {"disabled": names("NodeResourcesFit")}}}],
            extenders=[an_extender(("example.com/gpu", True))],
        )
    )
    with pytest.raises(ConfigError, match=r"profiles\[0\]\.pluginConfig: Required value: NodeResourcesFit needs"):
        inject_ignored_resources(config)
