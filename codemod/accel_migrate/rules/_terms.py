"""What to write for a loss that mixes reductions: one call for each kind of term."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable

from accel_migrate.context import Context
from accel_migrate.facts.terms import Term, terms_of
from accel_migrate.facts.values import Spread, spread_of

Weight = Callable[[Context, frozenset, ast.AST], "tuple[str, dict[str, ast.AST]] | None"]


def backward_lines(context: Context, loss: ast.expr, weight: Weight) -> str | None:
    """The backward passes which together are that of `loss`; None where its terms cannot be told apart."""
    groups = _groups(context, loss, weight)
    if groups is None:
        return None
    calls = [f"accelerator.backward({_sum([(t, t.text()) for t in terms])}{extra}" for extra, terms in groups]
    return "; ".join([*(f"{call}, sync=False, retain_graph=True)" for call in calls[:-1]), f"{calls[-1]})"])


def global_figure(context: Context, loss: ast.expr, weight: Weight) -> str | None:
    """The global value of `loss`, whose terms stand in variables, as an expression that adds theirs up."""
    terms = terms_of(context.facts, loss)
    if terms is None or any(isinstance(n, ast.Call) for term in terms for n in ast.walk(term.node)):
        return None
    figures = [_global(context, term, loss, weight) for term in terms]
    return None if None in figures else _sum(list(zip(terms, figures, strict=True)))  # type: ignore[arg-type]


def _global(context: Context, term: Term, loss: ast.expr, weight: Weight) -> str | None:
    values, text = context.facts.of(term.node), term.text()
    spread = spread_of(values)
    if spread is None:
        return text
    if spread is Spread.SUM:
        return context.say(context.dialect.global_sum, loss).replace("{x}", text)
    if spread is Spread.RATIO:
        found = weight(context, values, loss) if context.dialect.exact else None
        if found is None:
            return None
        text = f"{text}, weight={found[0]}"
    return context.say(context.dialect.global_mean, loss).replace("{x}", text)


def _groups(context: Context, loss: ast.expr, weight: Weight) -> list[tuple[str, list[Term]]] | None:
    """The terms of `loss` by what `backward` must be told of them; means, and what is the same everywhere, last."""
    terms = terms_of(context.facts, loss)
    if terms is None or not context.dialect.exact:
        return None
    groups: dict[str, list[Term]] = defaultdict(list)
    for term in terms:
        values = context.facts.of(term.node)
        extra = ""
        if spread_of(values) is Spread.SUM:
            extra = ', reduction="sum"'
        elif spread_of(values) is Spread.RATIO:
            found = weight(context, values, loss)
            if found is None:
                return None
            extra = f", weight={found[0]}"
        groups[extra].append(term)
    return sorted(groups.items(), key=lambda item: item[0] == "")


def _sum(terms: list[tuple[Term, str]]) -> str:
    """The terms, written as the text beside each, with their signs."""
    first, *others = terms
    return f"{'-' if first[0].negative else ''}{first[1]}" + "".join(f" {'-' if t.negative else '+'} {text}" for t, text in others)
