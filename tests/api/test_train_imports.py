"""`import tacit; tacit.train` imports torch and nothing else that is slow."""

import subprocess
import sys

SLOW = [
    "IPython",
    "grpc",
    "jinja2",
    "matplotlib",
    "networkx",
    "pandas",
    "plotly",
    "prometheus_client",
    "rich",
    "scipy.fft",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.spatial",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "tacit.graph_learning",
    "tacit.reports",
    "typer",
]


def imported_after(statement):
    command = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_train_imports_no_slow_module():
    found = imported_after("import tacit; tacit.train")
    assert "torch" in found
    assert found.isdisjoint(SLOW), sorted(found.intersection(SLOW))


def test_tacit_alone_imports_no_torch():
    assert "torch" not in imported_after("import tacit")
