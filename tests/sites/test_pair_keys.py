"""Keys of pairs: what they are derived from, which files are refused, and on what all sites must agree."""

import base64
import hashlib
import itertools
import json
import shutil

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import TacitError
from tacit.runs import Config
from tacit.sites import create_pair_key
from tacit.sites.build import build_site
from tacit.sites.description import first_difference
from tacit.sites.pair_keys import PairKeyFile
from tacit.sites.setup import create_network

from .manual_sites import ManualSite
from .paired_sites import THREE, change_network, load, public_keys
from .small_network import first_release

NAMES = ("site-1", "site-2", "site-3")
SMALL_ORDER = base64.b64encode(bytes(32)).decode()


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    """The folder of three sites with paired noise, which tests copy."""
    folder = tmp_path_factory.mktemp("paired") / "net"
    create_network(folder, 3, Config.parse(THREE))
    return folder


@pytest.fixture
def net(paired, tmp_path):
    return shutil.copytree(paired, tmp_path / "net")


def node_file(net, site="site-1"):
    return net / site / "node.toml"


def key_file(net, site="site-1"):
    return net / site / f"{site}.pair.key"


def build(net, site="site-1"):
    return build_site(load(node_file(net, site)))


def new_key(net, site):
    """Give a site a new private key; return its public key."""
    key_file(net, site).unlink(missing_ok=True)
    return create_pair_key(load(node_file(net, site)))[1]


def source(net, site):
    part = build(net, site)
    return PairKeyFile.of(key_file(net, site), part.node, part.algorithm.pairs, part.description)


# Derivation


def test_both_ends_derive_the_same_key_and_no_two_pairs_share_one(net):
    derived = {name: source(net, name).derive() for name in NAMES}
    for i, j in itertools.combinations(range(3), 2):
        assert derived[NAMES[i]][j] == derived[NAMES[j]][i]
    assert len({key for keys in derived.values() for key in keys.values()}) == 3


def test_the_key_of_a_pair_is_hkdf_of_x25519(net):
    """Computed here once more, from the files."""
    table = build(net).description
    text = json.loads(table.text)
    roster = [[name, text["pairs"]["public_keys"][name], text["records"][i]] for i, name in enumerate(NAMES)]
    plain = json.dumps({"roster": roster}, sort_keys=True, separators=(",", ":"))
    info = b"tacit/pair" + hashlib.sha256(plain.encode()).digest() + hashlib.sha256(table.text.encode()).digest()
    info += b"".join(number.to_bytes(8, "big") for number in (1, 0, 2))  # epoch, smaller id, larger id
    private = serialization.load_pem_private_key(key_file(net, "site-3").read_bytes(), None)
    public = X25519PublicKey.from_public_bytes(base64.b64decode(public_keys(net)["site-1"]))
    expected = HKDF(SHA256(), 32, None, info).derive(private.exchange(public))
    assert source(net, "site-1").derive()[2] == expected


@pytest.mark.parametrize("change", ["epoch", "rounds", "key of another site", "records"])
def test_another_roster_run_or_epoch_gives_other_keys(net, change):
    before = source(net, "site-1").derive()
    match change:
        case "epoch":
            change_network(net, epoch=2)
        case "rounds":
            change_network(net, rounds=7)
        case "key of another site":
            change_network(net, "site-3", public_key=new_key(net, "site-3"))
        case "records":
            change_network(net, "site-3", records=91)
    after = source(net, "site-1").derive()
    assert before.keys() == after.keys() == {1, 2}
    assert not set(before.values()) & set(after.values())


# Files that are refused


def refused(net, site="site-1"):
    with pytest.raises(TacitError) as error:
        build(net, site)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_private_key(net):
    key_file(net).unlink()
    error = refused(net)
    assert "site-1.pair.key is missing. A site erases it when an epoch begins" in error
    assert "create new keys with tacit network key, and raise epoch in network.toml at all sites" in error


def test_private_key_of_another_site(net):
    shutil.copy(key_file(net, "site-2"), key_file(net))
    assert "site-1.pair.key is not the private key of public_key of site-1 in network.toml" in refused(net)


def test_private_key_that_others_can_read(net):
    key_file(net).chmod(0o640)
    assert "site-1.pair.key can be read by others: run chmod 600" in refused(net)


def test_private_key_of_another_kind(net):
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_file(net).write_bytes(key.private_bytes(*form))
    assert "site-1.pair.key is not an X25519 private key" in refused(net)
    key_file(net).write_bytes(b"nothing")
    assert "site-1.pair.key is not a private key in PEM format" in refused(net)


def test_no_private_key_configured(net):
    file = node_file(net)
    file.write_text(file.read_text().replace('pair_key = "site-1.pair.key"\n', ""))
    assert refused(net) == "Paired noise needs the site's private key: set certificates.pair_key in node.toml"
    with pytest.raises(TacitError, match=r'Set certificates\.pair_key in node\.toml, such as "site-1\.pair\.key"'):
        create_pair_key(load(file))


def test_missing_public_key(net):
    change_network(net, "site-2", public_key=None)
    assert "Paired noise needs a public key of every site: site-2 has none" in refused(net)


@pytest.mark.parametrize("text", ["", "short", "A" * 43, "ÄÖ", base64.b64encode(bytes(33)).decode()])
def test_malformed_public_key(net, text):
    change_network(net, "site-2", public_key=text)
    assert "should be an X25519 public key: 32 bytes in base64" in refused(net)


def test_public_key_of_small_order(net):
    """With it, everybody could compute the key of the pair."""
    change_network(net, "site-2", public_key=SMALL_ORDER)
    assert "The public key of site-2 in network.toml is not secure: create a new one" in refused(net)


def test_two_sites_with_one_key(net):
    change_network(net, "site-2", public_key=public_keys(net)["site-1"])
    assert "two sites have the same public_key" in refused(net)


def test_a_key_is_never_replaced(net):
    before = key_file(net).read_bytes()
    with pytest.raises(TacitError, match="exists and is not replaced"):
        create_pair_key(load(node_file(net)))
    assert key_file(net).read_bytes() == before


# Agreement


@pytest.mark.parametrize("change", ["public key", "records", "colluders", "ratio", "keys", "epoch"])
def test_sites_that_disagree_refuse_each_other(net, tmp_path, change):
    theirs = shutil.copytree(net, tmp_path / "theirs")
    privacy = dict(THREE["privacy"])
    match change:
        case "public key":
            change_network(theirs, "site-3", public_key=new_key(theirs, "site-3"))
            expected = "pairs.public_keys.site-3 is "
        case "records":
            change_network(theirs, "site-3", records=91)
            expected = "records.2 is 90 here and 91 there"
        case "colluders":
            change_network(theirs, privacy={**privacy, "colluders": 1})
            expected = "privacy.colluders is 0 here and 1 there"
        case "ratio":
            change_network(theirs, privacy={**privacy, "ratio": 1.0})
            expected = "privacy.ratio is 3 here and 1 there"
        case "keys":
            (theirs / "keys.txt").write_text("0 1\n1 2\n")
            change_network(theirs, privacy={**privacy, "keys": "keys.txt"})
            expected = 'privacy.keys is not set here and "file" there'
        case "epoch":
            change_network(theirs, epoch=2)
            expected = "pairs.epoch is 1 here and 2 there"
    here, there = build(net, "site-1").description, build(theirs, "site-2").description
    difference = first_difference(here, there)
    assert difference.startswith(expected)
    mine, other = (
        ManualSite(tmp_path, name, description=description)
        for name, description in (("site-1", here), ("site-2", there))
    )
    accepted, replies = mine.receiver.on_first_message("site-2", other.receiver.hello("site-1"))
    assert not accepted
    (reply,) = replies
    assert f"belongs to another network: {difference}"[:100] in reply.decode(errors="replace")


def test_only_the_plan_differs(net):
    """Two machines that solve for different noise must not exchange values, even if all settings agree."""
    here = build(net).description
    there = here.model_copy(update={"pairs": here.pairs.model_copy(update={"plan": "0" * 64})})
    assert first_difference(here, there).startswith("pairs.plan is ")


# Sybils, and partners that are missing


def test_nothing_is_released_with_fewer_keys_than_planned(net):
    part = build(net)
    del part.task.pair_noise.partners[2]
    gradient = part.task.gradient(part.task.initial(), 0, part.algorithm.gradient_clip(0))
    (planned,) = part.algorithm.privacy.releases(0, part.task.nodes, part.task.sampling)
    with pytest.raises(TacitError, match=r"Node 0 has 1 of the 2 keys .* It lacks those of nodes \[2\]"):
        planned.mechanism.release(gradient)
    assert gradient._value.isnan().all(), "nothing is left to send"


def test_a_roster_that_changes_after_the_first_release_is_refused(net):
    first_release(load(node_file(net)))
    change_network(net, "site-3", public_key=new_key(net, "site-3"))
    assert "belongs to another run, or the settings or the data have changed since the first release" in refused(net)


def test_graph_learning_refuses_paired_noise(tmp_path):
    algorithm = {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, "clip": 20.0}
    config = {"rounds": 3, "algorithm": algorithm, "graph": "complete", "privacy": {"epsilon": 2.0, "noise": "paired"}}
    with pytest.raises(TacitError, match="cannot use paired noise: its messages are not added up over the sites"):
        create_network(tmp_path / "net", 3, Config.parse(config))


# The command


def test_network_key_command(net, tacit):
    key_file(net).unlink()
    ended = tacit("network", "key", str(node_file(net)))
    assert ended.code == 0
    (line,) = [line for line in ended.out.splitlines() if "public_key" in line]
    public = line.split('"')[1]
    assert key_file(net).stat().st_mode & 0o777 == 0o600
    assert "is not the private key of public_key of site-1" in refused(net)
    change_network(net, "site-1", public_key=public)
    change_network(net, epoch=2)
    assert build(net).description.pairs.epoch == 2
    again = tacit("network", "key", str(node_file(net)))
    assert again.code == 2
    assert again.err.startswith("error: ")
    assert "exists and is not replaced" in again.err
