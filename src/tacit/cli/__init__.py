"""The command line."""

from tacit.cli.app import main

__all__ = ["main"]
