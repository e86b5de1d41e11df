"""`tacit node`: run one site of a network."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.interrupt import INTERRUPTED
from tacit.cli.output import print_json, print_line, results_line

if TYPE_CHECKING:
    from tacit.sites import Node


@app.command()
def node(
    file: Annotated[Path, typer.Argument(help="The site's node.toml.")],
    log_file: Annotated[
        Path | None, typer.Option("--log", help="Append the log to this file instead of stderr.")
    ] = None,
    human: Annotated[bool, typer.Option("--human", help="Log plain text instead of JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also log every message that is sent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Run one site of a network. The same command resumes it."""
    import logging

    from tacit.reports import ReportPage
    from tacit.sites import (
        MetricsServer,
        Node,
        SiteConfig,
        build_site,
        capture_native_stderr,
        configure_logging,
        exclusive_lock,
    )

    os.umask(0o077)  # the state folder is readable by its owner only
    _raise_open_file_limit()
    site = SiteConfig.load(file)
    with ExitStack() as stack:
        stack.enter_context(exclusive_lock(site.state))
        configure_logging(site.name, log_file, human)
        if verbose:
            logging.getLogger("tacit.sites").setLevel(logging.DEBUG)
        stack.enter_context(capture_native_stderr())
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # stop after the round, like Ctrl-C
        running = Node(build_site(site), observers=[ReportPage()])
        if site.metrics_address is not None:
            stack.enter_context(MetricsServer(site.metrics_address, running.status))
        result = running.go()
    if as_json:
        print_json(result)
    else:
        _report(running, result)
    if running.run is not None and running.run.interrupted:
        raise typer.Exit(INTERRUPTED)


def _raise_open_file_limit() -> None:
    """Raise the limit, so that connections from outside the network cannot exhaust the file descriptors."""
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _report(node: Node, result: dict[str, Any]) -> None:
    from tacit.cli.privacy_lines import simulation_line
    from tacit.runs.metrics import metric

    assert node.run is not None
    accuracy = "" if result.get("accuracy") is None else f", accuracy {metric('accuracy').text(result['accuracy'])}"
    stopped = f". Stopped: {result['stopped']}" if result["stopped"] else ""
    print_line(f"{node.site.name}: {result['rounds']} rounds{accuracy}{stopped}")
    print_line(node.run.privacy.line)
    if node.site.noise_seed is not None:
        print_line(simulation_line(node.site.noise_seed))
    if node.run.privacy.runs:
        print_line(node.run.privacy.total_sentence)
    report = Path(result["out"]) / "report.html"
    print_line(results_line(report.parent, report if report.exists() else None))
