"""`tacit node`: one organisation's part of a run, in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.app import INTERRUPTED, app, emit, say


@app.command()
def node(
    file: Annotated[Path, typer.Argument(help="node.toml, this site's own file.")],
    log_file: Annotated[Path | None, typer.Option("--log", help="Append the log to this file, not to stderr.")] = None,
    human: Annotated[bool, typer.Option("--human", help="Log plain lines instead of JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every message that is sent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Run one site: its own data, its own ledger, its neighbours over mutual TLS. Started again, it goes on."""
    import logging

    from tacit.reports import ReportPage
    from tacit.sites import logs
    from tacit.sites.build import build_site
    from tacit.sites.config import SiteConfig
    from tacit.sites.metrics_server import MetricsServer
    from tacit.sites.node import Node
    from tacit.sites.private_state import exclusive_lock

    os.umask(0o077)  # what a site keeps is nobody else's
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # strangers' connections may not use them up
    site = SiteConfig.load(file)
    with ExitStack() as stack:
        stack.enter_context(exclusive_lock(site.state))
        logs.configure(site.name, log_file, human)
        if verbose:
            logging.getLogger("tacit.sites").setLevel(logging.DEBUG)
        stack.enter_context(logs.capture_native_stderr())
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: a clean end, to be taken up again
        running = Node(build_site(site), observers=[ReportPage()])
        if site.metrics_address is not None:
            stack.enter_context(MetricsServer(site.metrics_address, running.status))
        result = running.go()
    _report(result, running.run, as_json)
    if getattr(running.run, "interrupted", False):
        raise typer.Exit(INTERRUPTED)


def _report(result: dict[str, Any], run: Any, as_json: bool) -> None:
    if as_json:
        emit(result)
        return
    if result["stopped"]:
        say(f"Stopped: {result['stopped']}.")
    say(f"{result['rounds']} rounds are done; everything is in {result['out']}.")
    say(run.privacy.sentence())
