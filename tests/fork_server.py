"""The server from which tests fork new processes. It has imported everything already, which takes seconds.

A process has one such server. Its imports are the ones that were set last, so all tests must share one list.
"""

import multiprocessing

# The server finds modules of the tests only if it starts in the root of the repository, and skips them otherwise.
_IMPORTS = [
    "tacit",
    "tacit.api",
    "tacit.claims",
    "tacit.cli",
    "tacit.cli.account",
    "tacit.cli.node",
    "tacit.cli.train",
    "tacit.comparison_api",
    "tacit.estimators",
    "tacit.reports",
    "tacit.sites.metrics_server",
    "tacit.tables",
    "sklearn.datasets",
    "tests.docs.page_run",
    "tests.docs.configs",
    "tests.docs.usual_runs",
    "tests.runs.test_secret_kills",
    "tests.sites.site_processes",
]

FORK_SERVER = multiprocessing.get_context("forkserver")
FORK_SERVER.set_forkserver_preload(_IMPORTS)
