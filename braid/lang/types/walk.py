"""What the functions that give types to expressions need of the walk that they are part of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from braid.lang.types.type_variables import Term


class Walk(Protocol):
    """A walk over the expressions of one SELECT; implemented by `braid.lang.types.expressions.Typer`."""

    def of(self, node: exp.Expr) -> Term:
        """The type of an expression; None when it is not known."""

    def expect(self, node: exp.Expr, kind: str, user: str) -> Term:
        """Use an expression as a kind of type, on behalf of the operator or function `user`."""

    def relate(self, left: exp.Expr, right: exp.Expr, user: str, *, literals: bool = True) -> Term:
        """Give two expressions a common type."""

    def unify(self, nodes: Sequence[exp.Expr], user: str) -> Term:
        """Give several expressions, of which one is chosen, a common type."""

    def complain(
        self,
        code: str,
        node: exp.Expr,
        message: str,
        hint: str | None = None,
        about: Sequence[exp.Expr] = (),
    ) -> None:
        """Report a misfit, and why the columns in `about` have their types."""


def article(name: str) -> str:
    """A type with its article, for messages."""
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
