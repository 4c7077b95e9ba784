"""Asking the queueing hints of a hint document: which events each change is, and what every plugin makes of each.

The changes are judged one by one against the same objects; none is ever applied.  A hint that breaks off with anything
but `HintError` ends the document: that is a fault of ours, and no answer of the reference's.
"""

from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType
from tests.conformance.records import Change, EventAnswers, HintDocument
from tests.conformance.scenario import POD, World, decoded
from tests.conformance.settings import configuration, features, profiles

from berth.cluster.pods import PodInfo
from berth.framework.events import Hint, HintError
from berth.framework.features import Features
from berth.queueing.changes import Op, events_of_change
from berth.queueing.hints import HintMap, Waiter, build_hint_map

Answers = tuple[EventAnswers, ...]

_FAILED: Final = "Error"


def ask(document: HintDocument) -> list[Answers]:
    """Our events and answers for each change of *document*.

    Raises:
        KeyError: no profile serves the pod.
    """
    own = features(document.version)
    world = World(document.objects, own)
    pod = world.cluster.info(POD.decode(document.pod))
    built = profiles(document.version, configuration(document.version, document.config), world)
    profile = built[pod.pod.spec.scheduler_name]
    hint_map = build_hint_map(profile.plugins.values(), own.behaviours, further=False)
    return [_ask_about(change, pod, hint_map, own) for change in document.events]


def _ask_about(change: Change, pod: PodInfo, hint_map: HintMap, own: Features) -> Answers:
    old, new = _object(change.resource, change.old), _object(change.resource, change.new)
    events = events_of_change(change.resource, cast("Op", change.op), old, new, pod.pod, own.behaviours, own.gates)
    return tuple(
        EventAnswers(event=event.label, plugins=_answers(hint_map.waiters_for(event), pod, old, new))
        for event in events
    )


def _answers(waiters: tuple[Waiter, ...], pod: PodInfo, old: Any, new: Any) -> dict[str, str]:
    """Plugin -> answer; of several hints of one plugin, the first that brings the pod back counts."""
    answers: dict[str, str] = {}
    for waiter in waiters:
        if answers.get(waiter.plugin, Hint.SKIP.value) == Hint.SKIP.value:
            answers[waiter.plugin] = _answer(waiter, pod, old, new)
    return answers


def _answer(waiter: Waiter, pod: PodInfo, old: Any, new: Any) -> str:
    if waiter.hint is None:
        return Hint.QUEUE.value
    try:
        return waiter.hint(pod, old, new).value
    except HintError:
        return _FAILED


def _object(resource: str, raw: msgspec.Raw | UnsetType) -> Any:
    return None if raw is UNSET else decoded(resource, raw)
