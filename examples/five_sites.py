"""Five organisations train together: five processes on this machine, one of which is killed and resumes.

    python examples/five_sites.py                                  # about 40 s; writes the folder five-sites/
    python examples/five_sites.py my-folder --rounds 200

Sites need the extra `sites`: pip install "tacit[sites]". Each site has its own records, certificate, ledger and secret
noise, and sends messages to its neighbours over mutual TLS. `tacit up` does the same on the command line. Here one site
is killed with SIGKILL in the middle of the run. It starts again, repeats from its journal what it had sent, byte for
byte, and continues. Its ledger has every release once, so ε is what it would have been without the kill.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tacit.privacy import read_ledger
from tacit.runs import Config, verify
from tacit.sites import Supervisor, create_network

VICTIM = "site-3"
SETTINGS = {
    "name": "five-sites",
    "graph": "ring",
    "algorithm": {"name": "dp-sgd", "lr": 0.5, "local_steps": 1},  # the others wait for a site that is absent
    "privacy": {"epsilon": 3.0, "delta": 1e-4},
}


class KillOnce:
    """Called after every update of the network: kills one site once it has trained for some rounds."""

    def __init__(self, after: int) -> None:
        self.after, self.killed_in = after, None

    def __call__(self, network: Supervisor) -> None:
        for line in network.warnings:
            print(line)
        (site,) = [site for site in network.sites if site.name == VICTIM]
        if self.killed_in is None and site.status.round >= self.after and not site.finished:
            self.killed_in = site.status.round
            site.process.send_signal(signal.SIGKILL)
            print(f"{VICTIM} is killed in round {self.killed_in}")


def main(folder: Path = Path("five-sites"), rounds: int = 200, kill_after: int = 20) -> dict:
    config = Config.parse({**SETTINGS, "rounds": rounds})
    create_network(folder, 5, config)  # network.toml, and records, certificate and node.toml of each site
    kill = KillOnce(kill_after)
    network = Supervisor(folder)
    network.go(kill)
    result = network.result()
    state = folder / VICTIM / "state"
    releases = len(read_ledger(state / "ledger.sqlite"))
    print(f"All sites finished: {result['finished']}. Mean accuracy: {result['accuracy']:.3f}")
    print(f"{VICTIM} was killed in round {kill.killed_in}. Its ledger has {releases} releases in {rounds} rounds.")
    print(f"{VICTIM} is verified: {not verify(state).differences}")
    print(f"Guaranteed ε of the site with the largest one: {result['privacy']['guaranteed']:.3f}")
    return {**result, "killed_in": kill.killed_in, "releases": releases}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run five sites on this machine, and kill one of them.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("five-sites"))
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    main(arguments.folder, arguments.rounds)
