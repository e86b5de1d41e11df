"""The `tacit` command. A wrong input ends with one sentence and exit code 2, without a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tacit.cli.interrupt import INTERRUPTED, LINE, raise_on_ctrl_c
from tacit.cli.output import err, print_line, print_warning
from tacit.errors import TacitError


class _Commands(TyperGroup):
    """All commands. Ctrl-C that a command does not handle itself prints one line."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            raise_on_ctrl_c()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print(LINE, highlight=False)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    help="Train models across organisations that do not share their data, with differential privacy.",
    epilog="To start: tacit train (an embedded example that takes less than a minute).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_OUT_OF_MEMORY = "Out of memory: use fewer nodes, a smaller model or a smaller batch"


def _version(asked: bool) -> None:
    if asked:
        from tacit.version import __version__

        print_line(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def run_command() -> None:
    """Run the command that the arguments of the process name."""
    _add_commands()
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            app(prog_name="tacit")  # also under `python -m`: shell completion calls the command by this name
        except TacitError as error:
            _fail(str(error))
        except OSError as error:
            _fail(f"{error.filename or 'File system error'}: {error.strerror or error}")
        except MemoryError:
            _fail(_OUT_OF_MEMORY)
        except Exception as error:
            if os.environ.get("TACIT_DEBUG"):
                raise
            text = " ".join(str(error).split()) or "no message"
            out_of_memory = "allocate" in text  # torch raises RuntimeError
            _fail(_OUT_OF_MEMORY if out_of_memory else f"{type(error).__name__}: {text} (traceback: set TACIT_DEBUG=1)")


def _add_commands() -> None:
    from tacit.cli import (  # noqa: F401  (each adds its command)
        account,
        audit,
        budget,
        check,
        claims,
        compare,
        doctor,
        export,
        gallery,
        init,
        inspect,
        learn_graph,
        listing,
        network,
        node,
        plan,
        predict,
        report,
        reproduce,
        sweep,
        threats,
        train,
        tune,
        up,
        verify,
    )


def _fail(sentence: str) -> NoReturn:
    err.print("error:", sentence, style="red", highlight=False, soft_wrap=True, markup=False, emoji=False)
    sys.exit(2)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print_warning(str(message))
