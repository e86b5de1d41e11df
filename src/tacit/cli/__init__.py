"""The command line."""


def main() -> None:
    """Entry point of the command. This package imports nothing, so that Ctrl-C is handled from the start."""
    from tacit.cli.interrupt import exit_on_ctrl_c

    with exit_on_ctrl_c():
        from tacit.cli.app import run_command

        run_command()


__all__ = ["main"]
