"""`berth sandbox`: the embedded API server with hollow nodes, kept running."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from berth.config.options import MAX_PORT
from berth.sandbox.nodes.hollow import zoned_nodes
from berth.sandbox.sandbox import Endpoint, SandboxOptions, serve
from berth.sandbox.serving.server import ServerOptions


def sandbox(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        asyncio.run(_serve(options))
    except OSError as fault:
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth sandbox", description="An API server and hollow nodes, for trying things out."
    )
    parser.add_argument("--nodes", type=_count, default=50, help="how many hollow nodes (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="of the API server on loopback (default: a free one)")
    parser.add_argument("--kubernetes", choices=("1.36", "1.37"), default="1.37", help="the version it speaks for")
    parser.add_argument("--tls", action="store_true", help="serve HTTPS")
    parser.add_argument(
        "--kubeconfig", type=Path, default=Path(".berth/kubeconfig"), help="where to write one (default: %(default)s)"
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {number}")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be between 0 and {MAX_PORT}, got {number}")
    return number


async def _serve(options: argparse.Namespace) -> None:
    sandbox_options = SandboxOptions(
        server=ServerOptions(port=options.port, minor=options.kubernetes),
        nodes=tuple(zoned_nodes(options.nodes)) if options.nodes else (),
        kubeconfig=options.kubeconfig,
        tls=options.tls,
    )

    def ready(endpoint: Endpoint) -> None:
        print(f"API server at {endpoint.url} with {options.nodes} hollow nodes; Ctrl-C ends it", flush=True)
        print(f"  kubectl --kubeconfig {options.kubeconfig} get nodes", flush=True)
        print(f"  berth run --kubeconfig {options.kubeconfig} --leader-elect=false --secure-port=0", flush=True)

    task = asyncio.ensure_future(serve(sandbox_options, ready))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
