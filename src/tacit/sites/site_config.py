"""node.toml: the configuration of one site."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pydantic import Field

from tacit.device import DEVICE_PATTERN
from tacit.errors import TacitError, unknown
from tacit.runs import ConfigSection, NamedPart, read_toml, validate_section
from tacit.sites.identity import SiteIdentity
from tacit.sites.names import Address, SiteName, parse_address
from tacit.sites.network_config import NetworkConfig, with_folder

_ALL_INTERFACES = "[::]"


class CertificatePaths(ConfigSection):
    """[certificates] of node.toml: the site's certificate and private key, and the authority that it trusts.

    `pair_key` is the site's private key for paired noise.
    """

    certificate: Path = Field(description="the certificate of the site")
    key: Path = Field(description="the private key of the site")
    authority: Path = Field(description="the certificate of the authority that the site trusts")
    pair_key: Path | None = Field(default=None, description="the private key of the site for paired noise")


class SiteConfig(ConfigSection):
    """The contents of node.toml, a site's own file. Paths in it are relative to its folder.

    After `peer_timeout` seconds without a message a neighbour counts as absent. With `noise_seed` the noise is that of
    a simulation and protects nobody; without it the noise comes from a secret key in the `state` folder. A run with
    secret noise is added to all others on the same records, or on their `population`, and is refused if the total would
    exceed `population_budget`.
    """

    name: SiteName = Field(description="name of the site, as in network.toml and in its certificate")
    network: Path = Field(description="path of network.toml")
    listen: Address | None = Field(
        default=None, description="host and port to listen on; default: the port in network.toml, on all interfaces"
    )
    state: Path = Field(default=Path("state"), description="folder of the ledger, the journal and the noise key")
    peer_timeout: float = Field(
        default=30.0, gt=0, allow_inf_nan=False, description="seconds after which a silent neighbour counts as absent"
    )
    checkpoint_every: int = Field(default=10, ge=1, description="rounds between two checkpoints")
    device: str = Field(
        default="cpu", pattern=DEVICE_PATTERN, description="where the site computes: cpu, cuda, cuda:1, mps or auto"
    )
    metrics_address: Address | None = Field(default=None, description="host and port of the Prometheus metrics")
    noise_seed: int | None = Field(
        default=None, ge=0, lt=2**63, description="noise of a simulation, which protects nobody; default: secret noise"
    )
    population: str | None = Field(default=None, description="name of the population of the records")
    population_budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="limit of ε of all runs on the population"
    )
    certificates: CertificatePaths = Field(description="certificate and key of the site, and its authority")
    data: NamedPart = Field(description="the records or signals of the site")

    @classmethod
    def load(cls, path: Path) -> SiteConfig:
        """Read node.toml, and check the network and the certificates that it names."""
        written = validate_section(cls, read_toml(path), str(path))
        folder, files = path.parent, written.certificates
        site = written.model_copy(
            update={
                "network": folder / written.network,
                "state": folder / written.state,
                "certificates": CertificatePaths(
                    **{key: folder / file for key, file in files.model_dump(exclude_none=True).items()}
                ),
                "data": with_folder(written.data, folder),
            }
        )
        if site.name not in site.network_config.names:
            reason = unknown(f"site of {site.network}", site.name, site.network_config.names)
            raise TacitError(f"{path}: {reason}")
        if site.identity.name != site.name:
            raise TacitError(f'{files.certificate} belongs to "{site.identity.name}", not to "{site.name}"')
        return site

    @cached_property
    def network_config(self) -> NetworkConfig:
        """network.toml, read once."""
        return NetworkConfig.load(self.network)

    @cached_property
    def identity(self) -> SiteIdentity:
        """The site's certificate and key, read once."""
        return SiteIdentity.load(self.certificates.certificate, self.certificates.key, self.certificates.authority)

    @property
    def node(self) -> int:
        """The site's node id."""
        return self.network_config.names.index(self.name)

    @property
    def listen_address(self) -> str:
        """`listen`, or by default the port of the site's address in network.toml, on all interfaces."""
        return self.listen or f"{_ALL_INTERFACES}:{parse_address(self.network_config.addresses[self.name])[1]}"
