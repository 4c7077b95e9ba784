"""The pages of the HTTPS server: health, metrics, the configuration, flags, status, verbosity.

Each page is a small function over values that the process hands in once; `scheduler_pages` puts them at their paths.

Source: k8s cmd/kube-scheduler/app/server.go, ``newEndpointsHandler``; component-base configz, zpages and logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from aiohttp import web

from berth.runtime.serving.server import Handle, Page, status_response

if TYPE_CHECKING:
    from berth.runtime.logs import LogControl
    from berth.runtime.metrics.exposition import Exposer
    from berth.runtime.serving.health import Answer, HealthEndpoint

COMPONENT: Final = "kube-scheduler"
_TEXT: Final = "text/plain"
_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1beta1", "v1alpha1")
_NOT_STABLE: Final = "This page is for people; its layout changes without notice."
_NO_SNIFFING: Final = {"X-Content-Type-Options": "nosniff"}

Facts = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What ``/statusz`` tells.

    Attributes:
        binary_version: the newest version that is served.
        emulation_version: the one whose rules apply.
        started_s: when the process began, in seconds since 1970.
        now_s: gives the time of day in the same way.
    """

    binary_version: str
    emulation_version: str
    started_s: float
    now_s: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the pages show.

    Attributes:
        health: the health endpoints.
        metrics: for ``/metrics``.
        slis: for ``/metrics/slis``.
        config: gives the configuration in use as plain values.
        status: for ``/statusz``, and for when the process began.
        flags: all flags with their values as text.
        flagz: whether there is to be ``/flagz``.
        statusz: whether there is to be ``/statusz``.
        log: whose verbosity may be changed; None where it may not.
    """

    health: Iterable[HealthEndpoint]
    metrics: Exposer
    slis: Exposer
    config: Facts
    status: Status
    flags: Mapping[str, str]
    flagz: bool = True
    statusz: bool = True
    log: LogControl | None = None


def scheduler_pages(shown: Shown) -> dict[str, Page]:
    """All pages by path."""
    pages: dict[str, Page] = {}
    for endpoint in shown.health:
        pages.update(_health_pages(endpoint))
    exposed = frozenset({"GET", "DELETE"})
    pages["/metrics"] = Page(_metrics(shown.metrics, shown.status.started_s), exposed)
    pages["/metrics/slis"] = Page(_metrics(shown.slis, shown.status.started_s), exposed)
    pages["/configz"] = Page(_configz(shown.config))
    if shown.flagz:
        flags = dict(sorted(shown.flags.items()))
        lines = [f"{name}={value}" for name, value in flags.items()]
        pages["/flagz"] = Page(_zpage("flagz", lambda: {"flags": flags}, lambda: lines))
    if shown.statusz:
        paths = sorted({f"/{path.split('/')[1]}" for path in pages if not path.startswith("/debug/")})
        pages["/statusz"] = Page(
            _zpage(
                "statusz",
                lambda: _status_facts(shown.status, paths),
                lambda: _status_lines(shown.status, paths),
            )
        )
    if shown.log is not None:
        pages["/debug/flags/v"] = Page(_verbosity(shown.log), frozenset({"PUT"}), wrong_method=406)
    return pages


# -- health -----------------------------------------------------------------------------------------------------------


def _health_pages(endpoint: HealthEndpoint) -> dict[str, Page]:
    async def all_checks(request: web.BaseRequest) -> web.Response:
        query = request.rel_url.query
        return _plain(endpoint.answer(verbose="verbose" in query, exclude=frozenset(query.getall("exclude", []))))

    def one_check(name: str) -> Handle:
        async def page(_: web.BaseRequest) -> web.Response:
            return _plain(endpoint.answer_one(name))

        return page

    pages = {f"/{endpoint.name}/{name}": Page(one_check(name)) for name in endpoint.check_names}
    return {f"/{endpoint.name}": Page(all_checks), **pages}


def _plain(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, text=answer.text, content_type=_TEXT, headers=_NO_SNIFFING)


# -- metrics ----------------------------------------------------------------------------------------------------------


def _metrics(exposer: Exposer, started_s: float) -> Handle:
    started = {"Process-Start-Time-Unix": str(int(started_s))}

    async def page(request: web.BaseRequest) -> web.Response:
        if request.method == "DELETE":
            exposer.reset()
            return web.Response(text="metrics reset\n")
        compress = "gzip" in request.headers.get("Accept-Encoding", "")
        shown = await exposer.expose(request.headers.get("Accept", ""), compress=compress)
        encoding = {"Content-Encoding": "gzip"} if shown.gzipped else {}
        return web.Response(body=shown.body, headers={"Content-Type": shown.content_type, **encoding, **started})

    return page


# -- configuration, flags, status, verbosity --------------------------------------------------------------------------


def _configz(config: Facts) -> Handle:
    async def page(_: web.BaseRequest) -> web.Response:
        body = msgspec.json.encode({"componentconfig": config()})
        return web.Response(body=body, content_type="application/json", headers=_NO_SNIFFING)

    return page


def _zpage(name: str, facts: Facts, lines: Callable[[], Iterable[str]]) -> Handle:
    """A page that is text for people, or an object for those who ask for its kind by name."""
    kind = name.capitalize()

    async def page(request: web.BaseRequest) -> web.Response:
        for accepted in request.headers.get("Accept", "*/*").split(","):
            media_type, _, parameters = accepted.strip().partition(";")
            asked = dict(part.strip().partition("=")[::2] for part in parameters.split(";"))
            if media_type in ("*/*", "text/*", _TEXT) and "as" not in asked:
                text = "\n".join([f"\n{COMPONENT} {name}", _NOT_STABLE, "", *lines(), ""])
                return web.Response(text=text, content_type=_TEXT, headers=_NO_SNIFFING)
            version = asked.get("v", "")
            if (asked.get("g"), asked.get("as")) == (_GROUP, kind) and version in _VERSIONS:
                return _typed(media_type, version, kind, facts())
        return status_response(406, f"only {_TEXT} and {kind} of {_GROUP} can be had here")

    return page


def _typed(media_type: str, version: str, kind: str, facts: Mapping[str, Any]) -> web.Response:
    document = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": COMPONENT}, **facts}
    headers = dict(_NO_SNIFFING)
    if version != _VERSIONS[0]:
        headers["Warning"] = f'299 - "{_GROUP}/{version} {kind} is deprecated, ask for {_VERSIONS[0]}"'
    if media_type == "application/json":
        body = msgspec.json.encode(document)
    elif media_type == "application/yaml":
        body = yaml.safe_dump(document, sort_keys=True).encode()
    else:
        return status_response(406, f"{kind} can be had as JSON or YAML")
    return web.Response(body=body, content_type=media_type, headers=headers)


def _status_facts(status: Status, paths: list[str]) -> dict[str, Any]:
    return {
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.started_s)),
        "uptimeSeconds": int(status.now_s() - status.started_s),
        "goVersion": "",  # there is none, and the field is not optional
        "binaryVersion": status.binary_version,
        "emulationVersion": status.emulation_version,
        "paths": paths,
    }


def _status_lines(status: Status, paths: list[str]) -> list[str]:
    minutes, seconds = divmod(int(status.now_s() - status.started_s), 60)
    hours, minutes = divmod(minutes, 60)
    return [
        f"Started: {formatdate(status.started_s, usegmt=True)}",
        f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
        f"Binary version: {status.binary_version}",
        f"Emulation version: {status.emulation_version}",
        f"Paths: {' '.join(paths)}",
    ]


def _verbosity(log: LogControl) -> Handle:
    async def page(request: web.BaseRequest) -> web.Response:
        text = (await request.text()).strip()
        try:
            verbosity = int(text)
        except ValueError:
            return web.Response(status=400, text=f"{text[:40]!r} is no verbosity: a whole number is wanted\n")
        log.set_verbosity(verbosity)
        return web.Response(text=f"verbosity is {log.verbosity} now\n")

    return page
