"""The import graph of the package: which layer may import which, checked and printed.

`python tools/layers.py` lists every import that is not allowed, as file:line, and fails if there is one;
`--write` brings the table of docs/architecture.md up to date.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "braid"
PAGE = Path("docs/architecture.md")
BEGIN = "<!-- layers: written by tools/layers.py -->"
END = "<!-- end of layers -->"

LAYERS = {
    "cli": "commands: arguments in, text out",
    "service": "HTTP API, registry and loops of the service",
    "client": "typed client of the service",
    "api": "the one programmatic surface: programs, applications, data, lookup tables",
    "process": "what users write procedures with",
    "testing": "the runtime in one process: simulation, workloads, and the public test kit",
    "spark": "the runtime on Spark: sources, slicers, operators, sinks; the only importer of PySpark",
    "stores": "keyed lookup tables in RocksDB",
    "engine": "what runs, without Spark: admission, counters, notes, dead letters, output watermarks",
    "home": "paths of a home, and the typed records of a run",
    "plan": "typed query → frozen stages: rewrite rules, physical plan, explain, update rules",
    "lang": "PQL text → typed query: syntax, names, types",
    "kernels": "joins and other operators over Arrow blocks: pure NumPy and Arrow",
    "eventtime": "stream time, pacing, validity: pure functions; clocks are passed in",
    "log": "categories, commits, chunks, blocks, retention",
    "core": "words that every layer uses: sides, positions, times, errors, options, logging",
}
"""Layers and what they know, highest first. A layer imports only from itself and from those below it."""

ONLY = {"cli": {"service", "client", "api", "home", "core"}, "client": {"home", "core"}}
"""Layers that may import less than all that is below them."""

CONFINED = {"pyspark": "spark", "py4j": "spark"}
"""Foreign packages that one layer alone may import at run time."""


@dataclass(frozen=True)
class Import:
    """One import: in which module, where, of what; `typing` if it is only there for the type checker."""

    module: str
    path: Path
    line: int
    target: str
    typing: bool

    @property
    def layer(self) -> str:
        """Layer of the importing module."""
        return layer_of(self.module)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.module} imports {self.target}"


def layer_of(module: str) -> str:
    """The part of a module's name after the package's; nothing for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def room_of(module: str) -> str:
    """The folder of a layer that a module is in, or the module itself if it is in none."""
    return ".".join(module.split(".")[:3])


def modules(root: Path = ROOT) -> dict[str, Path]:
    """All modules of the package, by name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def read_imports(root: Path = ROOT) -> list[Import]:
    """Every import of the package's modules, of each other and of foreign packages."""
    known = modules(root)
    return [
        Import(module, path.relative_to(root), line, target, typing)
        for module, path in known.items()
        for line, target, typing in _imports(ast.parse(path.read_text()), module, path, known)
    ]


def _imports(
    tree: ast.AST, module: str, path: Path, known: Mapping[str, Path], typing: bool = False
) -> Iterator[tuple[int, str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in known else base, typing
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for inner in node.body:
                yield from _imports(ast.Module([inner], []), module, path, known, True)
            for inner in node.orelse:
                yield from _imports(ast.Module([inner], []), module, path, known, typing)
        else:
            yield from _imports(node, module, path, known, typing)


def violations(imports: Iterable[Import]) -> list[str]:
    """What is not allowed: upward imports, unknown layers, confined packages, cycles between rooms."""
    imports = list(imports)
    height = {layer: -place for place, layer in enumerate(LAYERS)}
    wrong = []
    for found in imports:
        top = found.target.partition(".")[0]
        if top != PACKAGE:
            owner = CONFINED.get(top, found.layer)
            if owner != found.layer and not found.typing:
                wrong.append(f"{found}, which only {PACKAGE}/{owner} may")
            continue
        here, there = found.layer, layer_of(found.target)
        if not here or not there or here == there:
            continue
        unknown = [name for name in (here, there) if name not in height]
        if unknown:
            wrong.append(f"{found}: {unknown[0]!r} is no layer; layers are {', '.join(LAYERS)}")
        elif height[there] > height[here]:
            wrong.append(f"{found}, which is a higher layer")
        elif there not in ONLY.get(here, LAYERS):
            wrong.append(f"{found}; {here} imports only {', '.join(sorted(ONLY[here]))}")
    return wrong + cycles(imports)


def cycles(imports: Iterable[Import]) -> list[str]:
    """Rooms of one layer that import each other, directly or by way of others."""
    graph: dict[str, dict[str, Import]] = {}
    for found in imports:
        one, other = room_of(found.module), room_of(found.target)
        # The __init__ of a layer is its surface: no room, and it may import all of them.
        rooms = one.count(".") == other.count(".") == 2
        if rooms and not found.typing and one != other and found.layer == layer_of(other):
            graph.setdefault(one, {}).setdefault(other, found)
    wrong, done = [], set[str]()
    for start in sorted(graph):
        stack: list[tuple[str, tuple[str, ...]]] = [(start, (start,))]
        seen = {start}
        while stack:
            room, way = stack.pop()
            for other, found in graph.get(room, {}).items():
                if other == start and not done & set(way):
                    wrong.append(f"{found}, which closes a circle: {' -> '.join((*way, start))}")
                    done |= set(way)
                elif other not in seen:
                    seen.add(other)
                    stack.append((other, (*way, other)))
    return wrong


def table(imports: Iterable[Import]) -> str:
    """The layers that exist, what each knows and which it imports, as a Markdown table."""
    imports = list(imports)
    used: dict[str, set[str]] = {found.layer: set() for found in imports}
    for found in imports:
        if found.target.startswith(f"{PACKAGE}.") and layer_of(found.target) != found.layer:
            used[found.layer].add(layer_of(found.target))
    lines = ["| layer | what it knows | imports |", "|---|---|---|"]
    for layer, knows in LAYERS.items():
        if layer in used:
            below = ", ".join(f"`{name}`" for name in LAYERS if name in used[layer])
            lines.append(f"| `{layer}` | {knows} | {below or 'nothing'} |")
    return "\n".join(lines)


def filled(text: str, content: str, begin: str = BEGIN, end: str = END) -> str:
    """A page with what is between its markers replaced."""
    before, found, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not found or not closing:
        raise SystemExit(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Check the imports, or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"bring the table in {PAGE} up to date")
    write = parser.parse_args(arguments).write
    imports = read_imports()
    page = ROOT / PAGE
    text = page.read_text()
    wanted = filled(text, table(imports))
    wrong = violations(imports)
    if write:
        page.write_text(wanted)
    elif text != wanted:
        wrong.append(f"{PAGE}: the table of layers is out of date; run python tools/layers.py --write")
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
