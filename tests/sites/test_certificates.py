"""Certificates say who a site is; what is wrong with one is told in a sentence, and TLS refuses it too."""

import os
import shutil
import ssl
import stat
from concurrent import futures
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.errors import TacitError
from tacit.sites import certificates
from tacit.sites.certificates import CertificateFiles, check_site_name, create_authority, create_site_certificate
from tacit.sites.identity import SiteIdentity, identity, problem

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sites of one authority."""
    folder = tmp_path_factory.mktemp("sites")
    for name in ("site-a", "site-b"):
        create_site_certificate(folder, name, ["node.example", "10.0.0.7"])
    return folder


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A site of the same name, of another authority."""
    folder = tmp_path_factory.mktemp("elsewhere")
    create_site_certificate(folder, "site-a")
    return folder


def loaded(folder, name, authority=None):
    pair = CertificateFiles.named(folder, name)
    return SiteIdentity.load(pair.certificate, pair.key, (authority or folder) / "authority.crt")


def wrong_with(folder, site, authority=None, **options):
    return problem(
        CertificateFiles.named(folder, site).certificate.read_bytes(),
        ((authority or folder) / "authority.crt").read_bytes(),
        **options,
    )


def certificate(folder, name):
    return x509.load_pem_x509_certificate(CertificateFiles.named(folder, name).certificate.read_bytes())


def test_a_site_has_its_name_and_hosts(folder):
    made = certificate(folder, "site-a")
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["site-a", "localhost", "node.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.0.0.7"]
    assert identity(made) == "site-a"
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)
    assert timedelta(days=89) < made.not_valid_after_utc - datetime.now(UTC) < timedelta(days=91)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_files_are_the_owners_alone(folder):
    files = sorted(path.name for path in folder.iterdir())
    assert files == [f"{name}.{end}" for name in ("authority", "site-a", "site-b") for end in ("crt", "key")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_secret_is_secret_from_its_first_byte(tmp_path, monkeypatch):
    modes = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (modes.append(stat.S_IMODE(Path(a).stat().st_mode)), replace(a, b)))
    before = os.umask(0)
    try:
        create_authority(tmp_path)
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]


def test_made_twice_is_made_once(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    create_site_certificate(folder, "site-a", ["node.example", "10.0.0.7"])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_another_host_or_a_near_end_gives_a_new_one(tmp_path, monkeypatch):
    pair = create_site_certificate(tmp_path, "site-a")
    first = pair.certificate.read_bytes()
    create_site_certificate(tmp_path, "site-a", ["node.example"])
    second = pair.certificate.read_bytes()
    assert first != second
    monkeypatch.setattr(certificates, "_SITE_DAYS", 20)
    create_site_certificate(tmp_path, "site-b")
    short = CertificateFiles.named(tmp_path, "site-b").certificate.read_bytes()
    create_site_certificate(tmp_path, "site-b")
    assert CertificateFiles.named(tmp_path, "site-b").certificate.read_bytes() != short
    assert wrong_with(tmp_path, "site-a") is wrong_with(tmp_path, "site-b") is None


def test_a_crash_between_the_two_files_is_mended(tmp_path):
    pair = create_authority(tmp_path)
    pair.certificate.unlink()
    site = create_site_certificate(tmp_path, "site-a")
    site.key.unlink()
    create_site_certificate(tmp_path, "site-a")
    loaded(tmp_path, "site-a")
    site.key.write_bytes(pair.key.read_bytes())
    with pytest.raises(TacitError, match=r"site-a.key is not the secret key of .*site-a.crt"):
        loaded(tmp_path, "site-a")
    create_site_certificate(tmp_path, "site-a")
    loaded(tmp_path, "site-a")


def test_what_others_made_is_left_alone(folder, elsewhere, tmp_path):
    create_authority(tmp_path)
    own = CertificateFiles.named(elsewhere, "site-a")
    (tmp_path / "site-a.crt").write_bytes(own.certificate.read_bytes())
    with pytest.raises(TacitError, match=r"site-a.crt is from another authority, and stays as it is"):
        create_site_certificate(tmp_path, "site-a")
    assert (tmp_path / "site-a.crt").read_bytes() == own.certificate.read_bytes()
    (tmp_path / "authority.key").write_bytes(own.key.read_bytes())
    with pytest.raises(TacitError, match=r"authority.key is not the secret key of"):
        create_site_certificate(tmp_path, "site-b")


def test_no_site_can_pass_for_another(folder):
    for name, hosts in [("site-c", ["site-a"]), ("node.example", [])]:
        with pytest.raises(TacitError, match="cannot have each other's names"):
            create_site_certificate(folder, name, hosts)


@pytest.mark.parametrize(
    "name", ["", "Site", "a b", "../a", "-a", "a.", "a" * 65, "localhost", "authority", "é", "a\nb"]
)
def test_names_that_cannot_be(name, tmp_path):
    with pytest.raises(TacitError, match="cannot name a site"):
        create_site_certificate(tmp_path, name)
    assert not list(tmp_path.iterdir())
    assert check_site_name("hospital-a.example.org") == "hospital-a.example.org"


def test_hosts_that_cannot_be(tmp_path):
    with pytest.raises(TacitError, match="'no host' is no host name or address"):
        create_site_certificate(tmp_path, "site-a", ["no host"])


def test_what_is_wrong_is_told(folder, elsewhere):
    made, whose = certificate(folder, "site-a"), 'the certificate of "site-a"'
    begin, end = made.not_valid_before_utc, made.not_valid_after_utc
    assert wrong_with(folder, "site-a", name="site-a") is None
    assert wrong_with(folder, "site-a", now=end + DAY) == f"{whose} expired on {end:%Y-%m-%d %H:%M} UTC"
    assert wrong_with(folder, "site-a", now=begin - DAY) == f"{whose} is not valid before {begin:%Y-%m-%d %H:%M} UTC"
    assert wrong_with(elsewhere, "site-a", folder).startswith(f"{whose} is from another authority, CN=tacit ")
    assert wrong_with(folder, "site-a", name="site-b") == f'{whose} is not that of "site-b"'
    assert problem(b"garbage", b"") == "the certificate is not a certificate in PEM form"
    authority = (folder / "authority.crt").read_bytes()
    damaged = CertificateFiles.named(folder, "site-a").certificate.read_bytes().replace(b"MII", b"MIJ", 1)
    assert problem(damaged, authority) == "the certificate is not a certificate in PEM form"


def test_a_site_is_no_authority(folder, tmp_path):
    """A certificate that a site has signed for another name is worth nothing."""
    create_authority(tmp_path)
    for end in ("crt", "key"):
        (tmp_path / f"authority.{end}").write_bytes((folder / f"site-b.{end}").read_bytes())
    forged = create_site_certificate(tmp_path, "site-a").certificate.read_bytes()
    authority, signer = (folder / "authority.crt").read_bytes(), (folder / "site-b.crt").read_bytes()
    assert "another authority" in problem(forged, authority)
    assert "did not sign" in problem(forged + signer, authority)


def test_an_authority_that_has_expired_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "_AUTHORITY_DAYS", -1)
    monkeypatch.setattr(certificates, "_SKEW", 3 * DAY)
    create_authority(tmp_path)
    with pytest.raises(TacitError, match=r"the authority .* expired on .*: move .* away"):
        create_site_certificate(tmp_path, "site-a")


def test_files_that_cannot_be_read(folder, tmp_path):
    with pytest.raises(TacitError, match="cannot read"):
        loaded(tmp_path, "site-a")
    (tmp_path / "authority.crt").write_text("nothing")
    (tmp_path / "authority.key").write_text("nothing")
    with pytest.raises(TacitError, match=r"authority.key is not a secret key"):
        create_site_certificate(tmp_path, "site-a")


@pytest.fixture(scope="module")
def server(folder):
    """site-b, which answers with the name in its caller's certificate."""

    def answer(request, context):
        return identity(context.auth_context()["x509_pem_cert"][0]).encode()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    handlers = {"Name": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
    port = server.add_secure_port("127.0.0.1:0", loaded(folder, "site-b").server_credentials())
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def called(address, credentials, options):
    with grpc.secure_channel(address, credentials, [*options, ("grpc.enable_retries", 0)]) as channel:
        return channel.unary_unary("/test/Name")(b"", timeout=5)


def test_grpc_lets_in_who_has_a_certificate(folder, server):
    me = loaded(folder, "site-a")
    assert called(server, me.channel_credentials(), me.channel_options("site-b")) == b"site-a"


def expired(folder, tmp_path, monkeypatch):
    """A certificate of the right authority that ended yesterday."""
    for path in folder.glob("authority.*"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(certificates, "_SITE_DAYS", -1)
    monkeypatch.setattr(certificates, "_SKEW", 3 * DAY)
    return create_site_certificate(tmp_path, "site-late")


def test_grpc_refuses_everyone_else(folder, elsewhere, server, tmp_path, monkeypatch):
    me, stranger = loaded(folder, "site-a"), loaded(elsewhere, "site-a")
    trusted = (folder / "authority.crt").read_bytes()
    late = expired(folder, tmp_path, monkeypatch)
    with pytest.raises(TacitError, match='the certificate of "site-late" expired'):
        SiteIdentity.load(late.certificate, late.key, folder / "authority.crt")
    other = CertificateFiles.named(elsewhere, "site-a")
    cases = [
        (me.channel_credentials(), "site-c"),  # the server is another than the one wanted
        (stranger.channel_credentials(), "site-b"),  # neither trusts the other
        (grpc.ssl_channel_credentials(trusted), "site-b"),  # no certificate
        (grpc.ssl_channel_credentials(trusted, other.key.read_bytes(), other.certificate.read_bytes()), "site-b"),
        (grpc.ssl_channel_credentials(trusted, late.key.read_bytes(), late.certificate.read_bytes()), "site-b"),
    ]
    for credentials, peer in cases:
        with pytest.raises(grpc.RpcError) as refusal:
            called(server, credentials, me.channel_options(peer))
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


def test_plain_sockets_check_both_ends_too(folder, elsewhere):
    def shake(client, server, peer="site-b"):
        """Both ends of a handshake in memory; what the server then knows of the client."""
        back, forth = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = client.context(ssl.Purpose.SERVER_AUTH).wrap_bio(back, forth, server_hostname=peer)
        far = server.context(ssl.Purpose.CLIENT_AUTH).wrap_bio(forth, back, server_side=True)
        for side in (near, far, near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        return dict(part[0] for part in far.getpeercert()["subject"])["commonName"], far.version()

    a, b, stranger = loaded(folder, "site-a"), loaded(folder, "site-b"), loaded(elsewhere, "site-a")
    assert shake(a, b) == ("site-a", "TLSv1.3")
    for client, peer in [(stranger, "site-b"), (a, "site-c")]:
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(client, b, peer)
