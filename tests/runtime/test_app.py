"""`berth run` up to the running scheduler: versions, configuration, what is refused, signals and the serving port."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from tests.kube.builders import a_list, until
from tests.kube.fake_server import Answer, FakeServer, keeper_for, status_answer
from tests.support.controlplane import free_ports

from berth.config.options import RunOptions
from berth.kube.credentials import CredentialKeeper, CredentialSource
from berth.kube.errors import CredentialsError
from berth.runtime import app
from berth.runtime.faults import StartError
from berth.runtime.logs import LogControl

if TYPE_CHECKING:
    from pathlib import Path

UNREACHABLE = "http://127.0.0.1:1"
CONFIG_TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _interpreter_as_before() -> Iterator[None]:
    """The process tells the garbage collector and the loggers how to behave."""
    thresholds, level = gc.get_threshold(), logging.getLogger().level
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    logging.getLogger().setLevel(level)


@asynccontextmanager
async def a_server(minor: str = "37") -> AsyncIterator[FakeServer]:
    """An API server of a version, without nodes and pods."""
    server = FakeServer()
    server.on("GET", "/version", Answer(body={"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}))
    for path in (PODS, NODES):
        server.on("GET", path, Answer(body=a_list()), Answer(chunks=[], stay=True))
    for path in ("/apis", "/api/v1"):  # which serve nothing that plugins look up
        server.on("GET", path, Answer(body={}))
    async with server.running():
        yield server


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the scheduler against the API server at an address."""

    async def run_at(url: str, **options: Any) -> int:
        async def opened(_: CredentialSource) -> CredentialKeeper:
            return keeper_for(url)

        monkeypatch.setattr(CredentialKeeper, "open", opened)
        flags = {"leader_elect": False, "secure_port": 0, **options}
        explicit = frozenset(name.replace("_", "-") for name in options) | {"leader-elect"}
        return await app.run(RunOptions(**flags, explicit=explicit), LogControl(0))

    return run_at


# -- versions and configuration ---------------------------------------------------------------------------------------


async def written(run: Run, folder: Path, url: str, **options: Any) -> Any:
    """The configuration that ``--write-config-to`` writes."""
    path = folder / "written.yaml"
    await run(url, write_config_to=str(path), **options)
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def first_plugins(config: Any) -> list[str]:
    plugins = config["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    return [plugin["name"] for plugin in plugins[2:4]]


async def test_the_configuration_is_written_and_nothing_is_scheduled(run: Run, tmp_path: Path) -> None:
    async with a_server() as server:
        config = await written(run, tmp_path, server.url)
        assert (config["kind"], config["leaderElection"]["leaderElect"]) == ("KubeSchedulerConfiguration", False)
        assert server.asked("GET", PODS) == []


async def test_the_rules_are_those_of_the_servers_version(run: Run, tmp_path: Path) -> None:
    async with a_server("36") as server:
        assert first_plugins(await written(run, tmp_path, server.url)) == ["NodeUnschedulable", "NodeName"]
    async with a_server("37") as server:
        assert first_plugins(await written(run, tmp_path, server.url)) == ["NodeName", "NodeUnschedulable"]


async def test_the_emulated_version_decides_whatever_the_server_is(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with a_server("37") as server:
        config = await written(run, tmp_path, server.url, emulated_version="1.36")
        assert first_plugins(config) == ["NodeUnschedulable", "NodeName"]
        assert f"API server {server.url} is version v1.37.0; deciding as Kubernetes 1.36" in caplog.messages


async def test_a_newer_server_gets_the_newest_rules_and_a_warning(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_server("40+") as server:
        assert first_plugins(await written(run, tmp_path, server.url)) == ["NodeName", "NodeUnschedulable"]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "API server version 1.40 is newer than the versions served here; acting as 1.37" in warnings


async def test_writing_the_configuration_needs_no_server(run: Run, tmp_path: Path) -> None:
    assert first_plugins(await written(run, tmp_path, UNREACHABLE)) == ["NodeName", "NodeUnschedulable"]
    config = await written(run, tmp_path, UNREACHABLE, emulated_version="1.36")
    assert first_plugins(config) == ["NodeUnschedulable", "NodeName"]


# -- what is refused --------------------------------------------------------------------------------------------------


async def refusal(run: Run, url: str, **options: Any) -> str:
    with pytest.raises(StartError) as raised:
        await run(url, **options)
    return str(raised.value)


async def test_a_server_that_is_out_of_reach_is_named(run: Run) -> None:
    text = await refusal(run, UNREACHABLE)
    assert text.startswith(f"API server {UNREACHABLE}: GET /version: ")


async def test_a_server_that_does_not_know_us_is_named(run: Run) -> None:
    server = FakeServer()
    server.on("GET", "/version", status_answer(403, "Forbidden", "not you"))
    async with server.running():
        assert await refusal(run, server.url) == f"API server {server.url}: 403 Forbidden: not you"


REFUSED_FLAGS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown gate": ({"feature_gates": {"NoSuch": True}}, "--feature-gates: unrecognized feature gate: NoSuch"),
    "a version that is not served": (
        {"emulated_version": "1.30"},
        "--emulated-version: emulation version 1.30 is not between [1.36, 1.37]",
    ),
    "an unusable flag": ({"logging_format": "xml"}, '--logging-format: Unsupported value: "xml": supported values: '),
    "a manifest that is not there": (
        {"allow_metric_labels_manifest": "/no/such/file"},
        "--allow-metric-labels-manifest: cannot read /no/such/file: ",
    ),
    "a folder that is not there": (
        {"write_config_to": "/no/such/folder/config.yaml"},
        "--write-config-to /no/such/folder/config.yaml: No such file or directory",
    ),
}


@pytest.mark.parametrize(("options", "expected"), REFUSED_FLAGS.values(), ids=REFUSED_FLAGS)
async def test_flags_that_cannot_be_followed_are_named(run: Run, options: dict[str, Any], expected: str) -> None:
    async with a_server() as server:
        assert (await refusal(run, server.url, **options)).startswith(expected)


@pytest.mark.parametrize("write", [True, False], ids=["to be written", "to be run with"])
async def test_a_configuration_that_cannot_be_had_is_refused(run: Run, tmp_path: Path, write: bool) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG_TYPE + "profiles: [{plugins: {filter: {enabled: [{name: NoSuch}]}}}]\n", encoding="utf-8")
    options = {"write_config_to": str(tmp_path / "written.yaml")} if write else {}
    async with a_server() as server:
        text = await refusal(run, server.url, config=str(config), **options)
    assert text == (
        'profiles[0]: creating profile for scheduler name default-scheduler: FilterPlugin "NoSuch" does not exist'
    )
    assert not (tmp_path / "written.yaml").exists()


async def test_each_fault_of_a_file_has_its_line(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG_TYPE + "parallelism: 0\npodMaxBackoffSeconds: -1\n", encoding="utf-8")
    async with a_server() as server:
        lines = (await refusal(run, server.url, config=str(config))).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["parallelism", "podMaxBackoffSeconds"]


async def test_a_file_that_is_not_there_is_named(run: Run) -> None:
    text = await refusal(run, UNREACHABLE, config="/no/such/config.yaml")
    assert "cannot read configuration file /no/such/config.yaml" in text


async def test_credentials_that_cannot_be_had_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: CredentialSource) -> CredentialKeeper:
        raise CredentialsError("kubeconfig /no/such: no such file")

    monkeypatch.setattr(CredentialKeeper, "open", refused)
    with pytest.raises(StartError, match=r"^kubeconfig /no/such: no such file$"):
        await app.run(RunOptions(kubeconfig="/no/such"), LogControl(0))


async def test_a_port_that_is_taken_is_named(run: Run) -> None:
    async with a_server() as server:
        taken = int(server.url.rpartition(":")[2])
        text = await refusal(run, server.url, bind_address="127.0.0.1", secure_port=taken)
    assert str(taken) in text


# -- running ----------------------------------------------------------------------------------------------------------


def watches(server: FakeServer) -> set[str]:
    return {seen.path for seen in server.asked("GET") if seen.query.get("watch")}


@asynccontextmanager
async def scheduling(run: Run, server: FakeServer, **options: Any) -> AsyncIterator[asyncio.Task[int]]:
    """The scheduler, once it watches; has to be stopped in the block."""
    task = asyncio.create_task(run(server.url, **options))
    try:
        await until(lambda: task.done() or watches(server) == {PODS, NODES})
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_as_it_ends_the_reference_without_leader_election(
    run: Run, number: signal.Signals
) -> None:
    async with a_server() as server, scheduling(run, server) as task:
        os.kill(os.getpid(), number)
        assert await asyncio.wait_for(task, 5) == 1


async def test_a_second_signal_ends_the_process_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    async with a_server() as server, scheduling(run, server):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: bool(codes))
    assert codes == [1]


async def test_the_pages_tell_of_the_running_scheduler(run: Run) -> None:
    (port,) = free_ports(1)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    options = {"bind_address": "127.0.0.1", "secure_port": port}

    async def page(path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
            session.get(f"https://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async with a_server() as server, scheduling(run, server, **options) as task:
        assert await page("/livez") == (200, "ok")
        status, text = await page("/readyz?verbose")
        assert (status, text.splitlines()[-1]) == (200, "readyz check passed")
        assert "[+]sched-handler-sync ok" in text
        assert (await page("/metrics"))[0] == 403  # nobody is there to ask who we are
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 5)
        with pytest.raises(aiohttp.ClientConnectorError):
            await page("/livez")
