"""Compiled node selectors, asked of many nodes at once.

A condition on a label is a look at the label's column: once per distinct value, or a comparison of codes.  A few nodes
are asked one by one, which is quicker.  Called by the plugins that select nodes by labels or by name.  Compiling, and
what a faulty term means, is the business of `berth.api.node_affinity`; here a faulty term simply matches nothing.

Source: k8s component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

from typing import Final

import numpy as np

from berth.api.node_affinity import NAME_FIELD, CompiledNodeSelector, FieldRequirement, RequiredNodeAffinity, Term
from berth.api.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Requirement
from berth.cluster.columns import Mask, Rows
from berth.cluster.nodes import NodeTable

_NO_ROW: Final = -1
_FEW: Final = 8


def required_mask(table: NodeTable, required: RequiredNodeAffinity, rows: Rows) -> Mask:
    """bool, shape (len(rows),): where the pod may run as far as its own selectors say."""
    if len(rows) <= _FEW:
        answers = (required.matches(table.node(row)) for row in rows.tolist())
        return np.fromiter(answers, dtype=np.bool_, count=len(rows))
    mask: Mask = np.ones(len(rows), dtype=np.bool_)
    for key, value in required.labels:
        mask &= _label_in(table, key, (value,), rows)
    if required.selector is not None:
        mask &= selector_mask(table, required.selector, rows)
    return mask


def selector_mask(table: NodeTable, selector: CompiledNodeSelector, rows: Rows) -> Mask:
    """bool, shape (len(rows),): where at least one term matches."""
    if len(rows) <= _FEW:
        answers = (selector.matches(table.node(row)) for row in rows.tolist())
        return np.fromiter(answers, dtype=np.bool_, count=len(rows))
    mask: Mask = np.zeros(len(rows), dtype=np.bool_)
    for term in selector.terms:
        mask |= term_mask(table, term, rows)
    return mask


def term_mask(table: NodeTable, term: Term, rows: Rows) -> Mask:
    """bool, shape (len(rows),): where all conditions of *term* hold."""
    if len(rows) <= _FEW:
        nodes = (table.node(row).metadata for row in rows.tolist())
        return np.fromiter((term.matches(n.name, n.labels) for n in nodes), dtype=np.bool_, count=len(rows))
    mask: Mask = np.full(len(rows), term.fault is None, dtype=np.bool_)
    for requirement in term.labels:
        mask &= _requirement_mask(table, requirement, rows)
    for field in term.fields:
        mask &= _field_mask(table, field, rows)
    return mask


def _requirement_mask(table: NodeTable, requirement: Requirement, rows: Rows) -> Mask:
    key, operator = requirement.key, requirement.operator
    if operator == IN:
        return _label_in(table, key, tuple(requirement.values), rows)
    if operator == NOT_IN:
        return ~_label_in(table, key, tuple(requirement.values), rows)
    if operator == EXISTS:
        return ~_lacks_label(table, key, rows)
    if operator == DOES_NOT_EXIST:
        return _lacks_label(table, key, rows)
    return table.label(key).mask(lambda value: value is not None and requirement.matches({key: value}), rows)


def _lacks_label(table: NodeTable, key: str, rows: Rows) -> Mask:
    mask: Mask = table.label(key).codes_of(rows) == 0
    return mask


def _label_in(table: NodeTable, key: str, values: tuple[str, ...], rows: Rows) -> Mask:
    column = table.label(key)
    wanted = [code for code in map(column.code_of, values) if code is not None]
    codes = column.codes_of(rows)
    if len(wanted) == 1:
        mask: Mask = codes == wanted[0]
        return mask
    by_code = np.zeros(len(column.values), dtype=np.bool_)
    by_code[wanted] = True
    return by_code[codes]


def _field_mask(table: NodeTable, field: FieldRequirement, rows: Rows) -> Mask:
    if field.key != NAME_FIELD:
        return np.full(len(rows), field.matches(""), dtype=np.bool_)
    row = table.row_of(field.value)
    same: Mask = rows == (_NO_ROW if row is None else row)
    return same if field.operator == IN else ~same
