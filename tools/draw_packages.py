"""Which package imports which? `python tools/draw_packages.py` prints the picture that CONTRIBUTING has.

An arrow points to what is imported; those that follow from others are left out. `--write` puts it into CONTRIBUTING.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "histogp"
BEGIN, END = "<!-- made by tools/draw_packages.py -->\n", "<!-- end -->\n"


def imports() -> dict[str, set[str]]:
    """The packages, and single modules, that each one imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        known = found.setdefault(own, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            known |= {name.split(".")[1] for name in names if name.startswith("histogp.")} - {own}
    return {own: {name for name in known if name in found} for own, known in found.items()}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All that one package imports, also through others."""
    seen: set[str] = set()
    todo = [*graph[start]]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph[name]
    return seen


def picture() -> str:
    """A flowchart in the notation of Mermaid."""
    graph = imports()
    lines = ["```mermaid", "flowchart TD"]
    for own in sorted(graph):
        further = {name for other in graph[own] for name in reachable(graph, other)}
        lines += [f"    {own} --> {other}" for other in sorted(graph[own] - further)]
    return "\n".join([*lines, "```"]) + "\n"


def main() -> None:
    """Print the picture, or write it into CONTRIBUTING."""
    if "--write" not in sys.argv:
        print(picture(), end="")
        return
    path = ROOT / "CONTRIBUTING.md"
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + picture() + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
