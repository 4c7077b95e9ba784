"""Where what was wanted and what came differ, in words: outcomes of a pod part by part, hints change by change.

The parts are those of the vectors' own order of importance; every field of an outcome belongs to one of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from tests.conformance.records import EventAnswers, Outcome, StatusRecord

V = TypeVar("V")

Answers = Sequence[EventAnswers]
Compare = Callable[[Outcome, Outcome], list[str]]

EVENTS: Final = "(events)"
_SHOWN: Final = 3  # entries of a mapping that are spelled out


def differences(wanted: Outcome, came: Outcome) -> dict[str, str]:
    """Part -> in what the outcomes differ, for the parts in which they do."""
    found = ((part, compare(wanted, came)) for part, compare in PARTS.items())
    return {part: "; ".join(words) for part, words in found if words}


def score_verdicts(wanted: Outcome, came: Outcome | None) -> dict[str, bool]:
    """Plugin -> whether its scores are equal on all nodes, for plugins that scored in either outcome.

    Args:
        wanted: the outcome of the reference.
        came: ours; None if there is none, to which nothing is equal.
    """
    if came is None:
        return dict.fromkeys(_scorers(wanted), False)
    return {name: _scores_of(name, wanted) == _scores_of(name, came) for name in _scorers(wanted) | _scorers(came)}


def hint_differences(wanted: Answers, came: Answers) -> str:
    """In what the events of a change, and the answers to them, differ; empty if in nothing."""
    labels, our_labels = _labels(wanted), _labels(came)
    if labels != our_labels:
        return f"events: wanted {_text(labels)}, came {_text(our_labels)}"
    words = (
        word
        for asked, ours in zip(wanted, came, strict=True)
        for word in _entries(f"{asked.event} for", asked.plugins, ours.plugins)
    )
    return "; ".join(words)


def hint_verdicts(wanted: Answers, came: Answers | None) -> dict[str, tuple[int, int]]:
    """Plugin -> how many of its answers to one change are equal, and how many there are on either side.

    The events themselves are counted under `EVENTS`, once a change.  Where they differ, no answer is equal.
    """
    same_events = came is not None and _labels(wanted) == _labels(came)
    ours = came if came is not None and same_events else (None,) * len(wanted)
    equal, total = Counter({EVENTS: int(same_events)}), Counter((EVENTS,))
    for asked, answered in zip(wanted, ours, strict=True):
        answers = answered.plugins if answered is not None else {}
        for name in asked.plugins.keys() | answers.keys():
            total[name] += 1
            equal[name] += asked.plugins.get(name) == answers.get(name)
    return {name: (equal[name], total[name]) for name in total}


def _feasible(wanted: Outcome, came: Outcome) -> list[str]:
    if wanted.pod != came.pod:
        return _value("pod", wanted.pod, came.pod)
    if (wanted.error is None) != (came.error is None):
        return [f"error: wanted {_text(wanted.error)}, came {_text(came.error)}"]
    if wanted.feasible is None or came.feasible is None:
        return _value("feasible", wanted.feasible, came.feasible)
    return _names("feasible", wanted.feasible, came.feasible)


def _nodes(wanted: Outcome, came: Outcome) -> list[str]:
    return [
        *_value("numNodes", wanted.num_nodes, came.num_nodes),
        *_entries("node", _told(wanted.nodes), _told(came.nodes)),
        *_value("absentNodes", _told_one(wanted.absent_nodes), _told_one(came.absent_nodes)),
        *_value("preFilterMessage", wanted.pre_filter_message, came.pre_filter_message),
        *_names("unschedulablePlugins", wanted.unschedulable_plugins, came.unschedulable_plugins),
    ]


def _scores(wanted: Outcome, came: Outcome) -> list[str]:
    names = sorted(name for name, equal in score_verdicts(wanted, came).items() if not equal)
    by_plugin = (_entries(f"{name} on", _scores_of(name, wanted), _scores_of(name, came)) for name in names)
    words = [word for words in by_plugin for word in words]
    if wanted.scores.keys() != came.scores.keys():
        words += _names("scored nodes", wanted.scores, came.scores)
    return [*words, *_entries("total of", wanted.totals, came.totals)]


def _best(wanted: Outcome, came: Outcome) -> list[str]:
    words = _names("best", wanted.best, came.best)
    if (came.chosen or wanted.chosen) and came.chosen not in wanted.best:
        words.append(f"chosen: wanted one of [{', '.join(wanted.best)}], came {_text(came.chosen)}")
    return words


def _preemption(wanted: Outcome, came: Outcome) -> list[str]:
    return [
        *_value("nominatedNode", wanted.nominated_node, came.nominated_node),
        *_value("victims", wanted.victims, came.victims),
        *_value("postFilter", wanted.post_filter, came.post_filter),
    ]


def _message(wanted: Outcome, came: Outcome) -> list[str]:
    return _value("message", wanted.message, came.message)


PARTS: Final[Mapping[str, Compare]] = {
    "feasible": _feasible,
    "nodes": _nodes,
    "scores": _scores,
    "best": _best,
    "preemption": _preemption,
    "message": _message,
}


def _scorers(outcome: Outcome) -> frozenset[str]:
    return frozenset(plugin for scores in outcome.scores.values() for plugin in scores)


def _labels(answers: Answers) -> tuple[str, ...]:
    return tuple(answer.event for answer in answers)


def _scores_of(plugin: str, outcome: Outcome) -> dict[str, int]:
    return {node: scores[plugin] for node, scores in outcome.scores.items() if plugin in scores}


def _told(statuses: Mapping[str, StatusRecord]) -> dict[str, StatusRecord | None]:
    return {node: _told_one(status) for node, status in statuses.items()}


def _told_one(status: StatusRecord | None) -> StatusRecord | None:
    """The status with its reasons as a set, as far as a tuple can be one."""
    if status is None:
        return None
    return StatusRecord(code=status.code, plugin=status.plugin, reasons=tuple(sorted(set(status.reasons))))


def _value(what: str, wanted: object, came: object) -> list[str]:
    return [] if wanted == came else [f"{what}: wanted {_text(wanted)}, came {_text(came)}"]


def _names(what: str, wanted: Iterable[str], came: Iterable[str]) -> list[str]:
    missing, extra = sorted(set(wanted) - set(came)), sorted(set(came) - set(wanted))
    words = [f"missing {', '.join(missing)}"] if missing else []
    words += [f"too many {', '.join(extra)}"] if extra else []
    return [f"{what}: {' and '.join(words)}"] if words else []


def _entries(what: str, wanted: Mapping[str, V], came: Mapping[str, V]) -> list[str]:
    different = sorted(key for key in wanted.keys() | came.keys() if wanted.get(key) != came.get(key))
    words = [f"{what} {key}: wanted {_text(wanted.get(key))}, came {_text(came.get(key))}" for key in different]
    if len(words) > _SHOWN:
        words[_SHOWN:] = [f"and {len(words) - _SHOWN} more like this"]
    return words


def _text(thing: object) -> str:
    match thing:
        case None | "" | ():
            return "none"
        case StatusRecord():
            words = f"{thing.code} by {thing.plugin}" if thing.plugin else thing.code
            return f"{words} ({', '.join(thing.reasons)})" if thing.reasons else words
        case str():
            return f'"{thing}"'
        case Sequence():
            return f"[{', '.join(map(str, thing))}]"
        case _:
            return str(thing)
