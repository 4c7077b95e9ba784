"""The manifest of metric labels: its form, and what is wrong with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.config.faults import ConfigError
from berth.config.metric_labels import read_metric_labels

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, text: str) -> dict[tuple[str, str], frozenset[str]]:
    path = folder / "labels.yaml"
    path.write_text(text, encoding="utf-8")
    return read_metric_labels(str(path))


def test_each_entry_names_a_metric_a_label_and_its_values(tmp_path: Path) -> None:
    text = "scheduler_goroutines,operation: binding, Filter\nrest_client_requests_total,code: '200'\n"
    assert read(tmp_path, text) == {
        ("scheduler_goroutines", "operation"): {"binding", "Filter"},
        ("rest_client_requests_total", "code"): {"200"},
    }


def test_an_empty_file_allows_everything(tmp_path: Path) -> None:
    assert read(tmp_path, "") == {}


REFUSALS = {
    "no mapping": ("- a", 'Invalid value: ["a"]: '),
    "no label": ("scheduler_goroutines: binding", "[scheduler_goroutines]: Invalid value: "),
    "no text": (
        "m,l: [binding]",
        '[m,l]: Invalid value: ["binding"]: must be formatted as metric,label: value1,value2',
    ),
    "no YAML": ("{", "labels.yaml: yaml: "),
    "the same twice": ("m,l: a\nm,l: b", "m,l"),
}


@pytest.mark.parametrize(("text", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_anything_else_is_refused_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    (line,) = str(raised.value).splitlines()
    assert line.startswith("--allow-metric-labels-manifest")
    assert expected in line


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--allow-metric-labels-manifest: cannot read .*labels\.yaml"):
        read_metric_labels(str(tmp_path / "labels.yaml"))
