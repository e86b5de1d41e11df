"""The structure of the package. The layers themselves are checked by import-linter (`make lint`)."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
FILES = sorted((ROOT / "tacit").rglob("*.py"))
PACKAGES = {
    "tacit.errors",
    "tacit.registry",
    "tacit.api",
    "tacit.claims",
    "tacit.comparison_api",
    "tacit.device",
    "tacit.reference",
    "tacit.tables",
    "tacit.version",
}  # single files that are their own public interface
PACKAGES |= {".".join(path.parent.relative_to(ROOT).parts) for path in FILES if path.name == "__init__.py"}
MAX_FILE_LINES, MAX_FUNCTION_LINES = 250, 50


def name(path):
    return path.relative_to(ROOT).as_posix()


def top_package(module):
    return module.split(".")[1] if "." in module else module


def imports(path):
    """Every module of Tacit that a file imports, with the names taken from it; TYPE_CHECKING blocks included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if alias.name.split(".")[0] == "tacit")


def public_names(package):
    """`__all__` of a package; None if it has none, as `tacit.errors`."""
    path = ROOT / package.replace(".", "/") / "__init__.py"
    if not path.exists():
        return None
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def test_imports_from_other_packages_use_public_names():
    inner = set()
    for path in FILES:
        own = path.relative_to(ROOT / "tacit").parts[0].removesuffix(".py")
        for module, names in imports(path):
            if module == "tacit" or top_package(module) == own:
                continue
            public = public_names(module)
            hidden = [] if public is None else sorted(set(names) - public)
            if module not in PACKAGES:
                inner.add((own, module))
            elif hidden:
                inner.add((own, f"{module}: {', '.join(hidden)}"))
    assert not inner, sorted(inner)


def test_public_class_names_are_unique():
    places = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name(path))
    repeated = {key: files for key, files in places.items() if len(files) > 1}
    assert repeated == {}


def test_files_are_short():
    long = {name(path) for path in FILES if len(path.read_text().splitlines()) > MAX_FILE_LINES}
    assert long == set()


def code_lines(function):
    """Lines of a function without its signature and docstring."""
    first = function.body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.end_lineno - (first.end_lineno if docstring else first.lineno - 1)


def test_functions_are_short():
    long = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) > MAX_FUNCTION_LINES:
                long.add(f"{name(path)}:{node.name}")
    assert long == set()


def test_files_have_a_docstring():
    without = [name(path) for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert without == []
