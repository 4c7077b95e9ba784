"""The scheduler as its users run it: the command as a child process, its output in a file.

A test starts it against any API server by a kubeconfig, ends it politely or not, and gets the end of its log into the
error whenever it is not in the state that the test needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMMAND = Path(sys.executable).with_name("berth")
DEADLINE_S = 60.0
POLL_S = 0.02
LOG_TAIL_LINES = 40
SYNCED = "synced: "
LEADING = "became leader"


class SchedulerError(AssertionError):
    """The scheduler is not in the state that the test needs; the text holds the end of its log."""


class SchedulerProcess:
    """One `berth` process; a context manager that kills it at the end.

    Args:
        folder: where the log and the configuration file go.
        flags: of the command line.
        config: a KubeSchedulerConfiguration to write into a file and to pass as `--config`; apiVersion and kind are
            filled in.
        name: of the files, where several run at a time.
        environment: variables beside those of this process.
        command: what is run instead of `berth`.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        config: Mapping[str, Any] | None = None,
        name: str = "berth",
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (str(COMMAND),),
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        self._command = [*command, *flags]
        if config is not None:
            path = folder / f"{name}.yaml"
            path.write_text(yaml.safe_dump({**CONFIG_TYPE, **config}), encoding="utf-8")
            self._command.append(f"--config={path}")
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def start(self) -> Self:
        """Starts the process and returns at once."""
        with self.log.open("ab") as output:
            # A session of its own: an interrupt from the keyboard reaches the tests only, and they end what they began.
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, env=self._environment, start_new_session=True
            )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise SchedulerError(f"{self.name} has not been started")
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def log_tail(self) -> str:
        return "\n".join([f"the end of {self.log.name}:", *self.log_text().splitlines()[-LOG_TAIL_LINES:]])

    def check(self) -> None:
        """Raises SchedulerError if the process has ended."""
        if not self.is_running:
            raise SchedulerError(f"{self.name} ended with {self.process.returncode}\n{self.log_tail()}")

    def wait_log(self, text: str, deadline_s: float = DEADLINE_S) -> Self:
        """Waits until the log holds *text*."""
        self.wait_until(f"log {text!r}", lambda: text in self.log_text(), deadline_s)
        return self

    def wait_synced(self) -> Self:
        """Waits until all that there is has been read."""
        return self.wait_log(SYNCED)

    def wait_until(self, what: str, is_so: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Waits for something that needs this process to run.

        Raises:
            SchedulerError: the process ended, or the time was up.
        """
        until = time.monotonic() + deadline_s
        while not is_so():
            self.check()
            if time.monotonic() > until:
                raise SchedulerError(f"{self.name} did not {what} within {deadline_s:g} s\n{self.log_tail()}")
            time.sleep(POLL_S)

    def wait_ended(self, deadline_s: float = DEADLINE_S) -> int:
        """The exit code, once the process has ended by itself."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired as expired:
            raise SchedulerError(f"{self.name} did not end within {deadline_s:g} s\n{self.log_tail()}") from expired

    def terminate(self, deadline_s: float = DEADLINE_S) -> int:
        """Asks the process to end, as a kubelet does; returns its exit code."""
        self.process.terminate()
        return self.wait_ended(deadline_s)

    def kill(self) -> None:
        """Ends the process without a warning; does nothing if it does not run."""
        if self.is_running:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Stops the process in its tracks, as a machine does that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


CONFIG_TYPE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
