"""From a typed query to a plan: rewrite rules in a fixed order, then one stage per table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from braid.lang.query import Query
from braid.plan.logical.lower import lower
from braid.plan.logical.rules.cut_slicers import cut_slicers
from braid.plan.logical.rules.cut_views import cut_views
from braid.plan.logical.rules.drop_unused import drop_unused
from braid.plan.logical.rules.eliminate_aliases import eliminate_aliases
from braid.plan.logical.rules.expand_interpolate import expand_interpolate
from braid.plan.logical.rules.isolate_residuals import isolate_residuals
from braid.plan.logical.rules.merge_views import merge_views
from braid.plan.logical.rules.name_joins import name_joins
from braid.plan.logical.rules.prune_columns import prune_columns
from braid.plan.logical.rules.prune_output import prune_output
from braid.plan.logical.rules.push_expressions import push_expressions
from braid.plan.logical.rules.push_keys import push_keys
from braid.plan.logical.rules.push_one_sided import push_one_sided
from braid.plan.logical.rules.push_residual import push_residual
from braid.plan.logical.rules.push_times import push_times
from braid.plan.logical.rules.push_where import push_where
from braid.plan.logical.rules.separate_operators import separate_operators
from braid.plan.logical.rules.separate_sides import separate_sides
from braid.plan.logical.rules.split_joins import split_joins
from braid.plan.stages.base import Plan

Rule = Callable[[Query], Query]
"""Gives a query that means the same; leaves alone what it has nothing to do with."""

RULES: tuple[Rule, ...] = (
    drop_unused,
    name_joins,
    eliminate_aliases,
    expand_interpolate,
    split_joins,
    isolate_residuals,
    separate_sides,
    separate_operators,
    push_keys,
    push_times,
    push_one_sided,
    push_residual,
    push_where,
    push_expressions,
    prune_columns,
    cut_views,
    merge_views,
    prune_output,
    cut_slicers,
)
"""The order matters: joins are named and split before they are taken apart, and expressions are moved to the
slicers before columns are pruned and statements are joined into operators."""


def rewrite(query: Query, rules: Iterable[Rule] = RULES) -> Query:
    """The same application in the four groups of statements of section 4.2 of the paper."""
    for rule in rules:
        query = rule(query)
    return query


def plan(query: Query) -> Plan:
    """The stages that run a query."""
    return lower(rewrite(query))
