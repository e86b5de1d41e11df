"""Certificates identify sites. A bad certificate is refused with a reason, and by TLS too."""

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
from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.identity import SiteIdentity, certificate_problem, common_name
from tacit.sites.names import check_site_name

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
    """A site with the same name, from another authority."""
    folder = tmp_path_factory.mktemp("elsewhere")
    create_site_certificate(folder, "site-a")
    return folder


def loaded(folder, name, authority=None):
    files = CertificateFiles.in_folder(folder, name)
    return SiteIdentity.load(files.certificate, files.key, (authority or folder) / "authority.crt")


def problem_of(folder, site, authority=None, **options):
    return certificate_problem(
        CertificateFiles.in_folder(folder, site).certificate.read_bytes(),
        ((authority or folder) / "authority.crt").read_bytes(),
        **options,
    )


def certificate(folder, name):
    return x509.load_pem_x509_certificate(CertificateFiles.in_folder(folder, name).certificate.read_bytes())


def test_certificate_has_site_name_and_hosts(folder):
    made = certificate(folder, "site-a")
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["site-a", "localhost", "node.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.0.0.7"]
    assert common_name(made) == "site-a"
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)
    assert timedelta(days=89) < made.not_valid_after_utc - datetime.now(UTC) < timedelta(days=91)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_only_the_owner_can_read_the_files(folder):
    files = sorted(path.name for path in folder.iterdir())
    assert files == [f"{name}.{end}" for name in ("authority", "site-a", "site-b") for end in ("crt", "key")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_private_files_have_mode_600_before_they_get_their_name(tmp_path, monkeypatch):
    modes = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (modes.append(stat.S_IMODE(Path(a).stat().st_mode)), replace(a, b)))
    before = os.umask(0)
    try:
        create_authority(tmp_path)
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]


def test_creating_again_changes_nothing(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    create_site_certificate(folder, "site-a", ["node.example", "10.0.0.7"])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_new_host_or_near_expiry_creates_a_new_certificate(tmp_path, monkeypatch):
    files = create_site_certificate(tmp_path, "site-a")
    first = files.certificate.read_bytes()
    create_site_certificate(tmp_path, "site-a", ["node.example"])
    second = files.certificate.read_bytes()
    assert first != second
    monkeypatch.setattr(certificates, "_SITE_DAYS", 20)
    create_site_certificate(tmp_path, "site-b")
    short = CertificateFiles.in_folder(tmp_path, "site-b").certificate.read_bytes()
    create_site_certificate(tmp_path, "site-b")
    assert CertificateFiles.in_folder(tmp_path, "site-b").certificate.read_bytes() != short
    assert problem_of(tmp_path, "site-a") is problem_of(tmp_path, "site-b") is None


def test_crash_between_the_two_files_is_repaired(tmp_path):
    authority = create_authority(tmp_path)
    authority.certificate.unlink()
    site = create_site_certificate(tmp_path, "site-a")
    site.key.unlink()
    create_site_certificate(tmp_path, "site-a")
    loaded(tmp_path, "site-a")
    site.key.write_bytes(authority.key.read_bytes())
    with pytest.raises(TacitError, match=r"site-a.key is not the private key of .*site-a.crt"):
        loaded(tmp_path, "site-a")
    create_site_certificate(tmp_path, "site-a")
    loaded(tmp_path, "site-a")


def test_certificates_of_another_authority_are_not_replaced(folder, elsewhere, tmp_path):
    create_authority(tmp_path)
    own = CertificateFiles.in_folder(elsewhere, "site-a")
    (tmp_path / "site-a.crt").write_bytes(own.certificate.read_bytes())
    with pytest.raises(TacitError, match=r"site-a.crt is from another authority and is not replaced"):
        create_site_certificate(tmp_path, "site-a")
    assert (tmp_path / "site-a.crt").read_bytes() == own.certificate.read_bytes()
    (tmp_path / "authority.key").write_bytes(own.key.read_bytes())
    with pytest.raises(TacitError, match=r"authority.key is not the private key of"):
        create_site_certificate(tmp_path, "site-b")


def test_no_certificate_is_valid_for_another_site(folder):
    for name, hosts in [("site-c", ["site-a"]), ("node.example", [])]:
        with pytest.raises(TacitError, match="use each other's names as host names"):
            create_site_certificate(folder, name, hosts)


@pytest.mark.parametrize(
    "name", ["", "Site", "a b", "../a", "-a", "a.", "a" * 65, "localhost", "authority", "é", "a\nb"]
)
def test_invalid_site_names(name, tmp_path):
    with pytest.raises(TacitError, match="Invalid site name"):
        create_site_certificate(tmp_path, name)
    assert not list(tmp_path.iterdir())
    assert check_site_name("hospital-a.example.org") == "hospital-a.example.org"


def test_invalid_hosts(tmp_path):
    with pytest.raises(TacitError, match="'no host' is not a host name or an IP address"):
        create_site_certificate(tmp_path, "site-a", ["no host"])


def test_certificate_problem_gives_the_reason(folder, elsewhere):
    made, subject = certificate(folder, "site-a"), 'The certificate of "site-a"'
    begin, end = made.not_valid_before_utc, made.not_valid_after_utc
    assert problem_of(folder, "site-a", name="site-a") is None
    assert problem_of(folder, "site-a", now=end + DAY) == f"{subject} expired on {end:%Y-%m-%d %H:%M} UTC"
    assert problem_of(folder, "site-a", now=begin - DAY) == f"{subject} is not valid before {begin:%Y-%m-%d %H:%M} UTC"
    assert problem_of(elsewhere, "site-a", folder).startswith(f"{subject} is issued by an unknown authority, CN=tacit ")
    assert problem_of(folder, "site-a", name="site-b") == f'{subject} does not belong to "site-b"'
    assert certificate_problem(b"garbage", b"") == "The certificate is not a certificate in PEM format"
    authority = (folder / "authority.crt").read_bytes()
    damaged = CertificateFiles.in_folder(folder, "site-a").certificate.read_bytes().replace(b"MII", b"MIJ", 1)
    assert certificate_problem(damaged, authority) == "The certificate is not a certificate in PEM format"


def test_site_certificates_cannot_sign_others(folder, tmp_path):
    """A certificate signed by a site is refused, with and without that site in its chain."""
    create_authority(tmp_path)
    for end in ("crt", "key"):
        (tmp_path / f"authority.{end}").write_bytes((folder / f"site-b.{end}").read_bytes())
    forged = create_site_certificate(tmp_path, "site-a").certificate.read_bytes()
    authority, signer = (folder / "authority.crt").read_bytes(), (folder / "site-b.crt").read_bytes()
    assert "unknown authority" in certificate_problem(forged, authority)
    chain_problem = certificate_problem(forged + signer, authority)
    assert chain_problem == 'Broken certificate chain: "CN=site-a" is not signed by "CN=site-b"'


def test_expired_authority_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "_AUTHORITY_DAYS", -1)
    monkeypatch.setattr(certificates, "_CLOCK_SKEW", 3 * DAY)
    create_authority(tmp_path)
    with pytest.raises(TacitError, match=r"The authority .* expired on .* UTC\. Move .* away"):
        create_site_certificate(tmp_path, "site-a")


def test_unreadable_files(folder, tmp_path):
    with pytest.raises(TacitError, match="Cannot read"):
        loaded(tmp_path, "site-a")
    (tmp_path / "authority.crt").write_text("nothing")
    (tmp_path / "authority.key").write_text("nothing")
    with pytest.raises(TacitError, match=r"authority.key is not a private key"):
        create_site_certificate(tmp_path, "site-a")


@pytest.fixture(scope="module")
def server(folder):
    """site-b, which answers with the name in the client's certificate."""

    def answer(request, context):
        return common_name(context.auth_context()["x509_pem_cert"][0]).encode()

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


def test_grpc_accepts_a_valid_certificate(folder, server):
    me = loaded(folder, "site-a")
    assert called(server, me.channel_credentials(), me.channel_options("site-b")) == b"site-a"


def expired(folder, tmp_path, monkeypatch):
    """A certificate of the right authority that expired yesterday."""
    for path in folder.glob("authority.*"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(certificates, "_SITE_DAYS", -1)
    monkeypatch.setattr(certificates, "_CLOCK_SKEW", 3 * DAY)
    return create_site_certificate(tmp_path, "site-late")


def test_grpc_refuses_all_other_clients(folder, elsewhere, server, tmp_path, monkeypatch):
    me, stranger = loaded(folder, "site-a"), loaded(elsewhere, "site-a")
    trusted = (folder / "authority.crt").read_bytes()
    late = expired(folder, tmp_path, monkeypatch)
    with pytest.raises(TacitError, match='The certificate of "site-late" expired'):
        SiteIdentity.load(late.certificate, late.key, folder / "authority.crt")
    other = CertificateFiles.in_folder(elsewhere, "site-a")
    cases = [
        (me.channel_credentials(), "site-c"),  # the server is not the expected site
        (stranger.channel_credentials(), "site-b"),  # neither side trusts the other
        (grpc.ssl_channel_credentials(trusted), "site-b"),  # no client certificate
        (grpc.ssl_channel_credentials(trusted, other.key.read_bytes(), other.certificate.read_bytes()), "site-b"),
        (grpc.ssl_channel_credentials(trusted, late.key.read_bytes(), late.certificate.read_bytes()), "site-b"),
    ]
    for credentials, peer in cases:
        with pytest.raises(grpc.RpcError) as refusal:
            called(server, credentials, me.channel_options(peer))
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


def test_plain_sockets_check_both_certificates(folder, elsewhere):
    def shake(client, server, peer="site-b"):
        """Return the client name that the server verified, and the TLS version, of a handshake in memory."""
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
