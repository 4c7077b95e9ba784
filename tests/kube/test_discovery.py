"""Versions and served resources."""

from __future__ import annotations

import pytest
from tests.kube.scripted_api import ScriptedApi, Sent

from berth.kube.discovery import Discovery, ServerVersion, discover, server_version
from berth.kube.errors import KubeError, NotFoundError, ServerError

VERSIONS: dict[str, tuple[dict[str, str], ServerVersion]] = {
    "plain": ({"major": "1", "minor": "37", "gitVersion": "v1.37.2"}, ServerVersion(1, 37, "v1.37.2")),
    "with a plus": ({"major": "1", "minor": "36+", "gitVersion": "v1.36.1-x"}, ServerVersion(1, 36, "v1.36.1-x")),
}


@pytest.mark.parametrize(("answer", "want"), VERSIONS.values(), ids=VERSIONS.keys())
async def test_a_version_is_read(answer: dict[str, str], want: ServerVersion) -> None:
    assert await server_version(ScriptedApi(lambda _: answer)) == want


@pytest.mark.parametrize("answer", [{}, {"major": "one"}, {"major": 1}, ["1.37"]])
async def test_an_answer_without_a_version_is_an_error(answer: object) -> None:
    with pytest.raises(KubeError, match="/version"):
        await server_version(ScriptedApi(lambda _: answer))


def a_server(sent: Sent) -> object:
    answers: dict[str, object] = {
        "/apis": {
            "groups": [
                {"versions": [{"groupVersion": "resource.k8s.io/v1"}, {"groupVersion": "resource.k8s.io/v1beta2"}]},
                {"versions": [{"groupVersion": "gone.example/v1"}]},
            ]
        },
        "/api/v1": {"resources": [{"name": "pods"}, {"name": "pods/binding"}]},
        "/apis/resource.k8s.io/v1": {"resources": [{"name": "resourceclaims"}]},
    }
    return answers.get(sent.path, NotFoundError(404))


async def test_only_the_group_versions_in_question_are_asked_about() -> None:
    api = ScriptedApi(a_server)
    found = await discover(api, ["v1", "resource.k8s.io/v1", "scheduling.k8s.io/v1beta1", "gone.example/v1"])
    assert found == Discovery(
        {
            "v1": frozenset({"pods", "pods/binding"}),
            "resource.k8s.io/v1": frozenset({"resourceclaims"}),
            "gone.example/v1": frozenset(),
        }
    )
    assert [sent.path for sent in api.sent] == [
        "/apis",
        "/api/v1",
        "/apis/resource.k8s.io/v1",
        "/apis/gone.example/v1",
    ]
    assert found.serves("v1", "pods/binding")
    assert not found.serves("scheduling.k8s.io/v1beta1", "podgroups")


async def test_a_server_that_cannot_answer_is_not_taken_for_one_that_serves_nothing() -> None:
    with pytest.raises(ServerError):
        await discover(ScriptedApi(lambda _: ServerError(503)), ["v1"])
    with pytest.raises(KubeError, match="unreadable"):
        await discover(ScriptedApi(lambda _: {"groups": 1}), ["v1"])
