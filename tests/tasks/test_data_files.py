"""Finding, checking and downloading data files, with a local server in place of the web."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import platformdirs
import pytest
import requests

from tacit.errors import TacitError
from tacit.tasks.data import datasets, files, libsvm
from tacit.tasks.data.files import DataFile

GOOD = b"the right bytes" * 1000
DIGEST = hashlib.sha256(GOOD).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and an empty folder TACIT_DATA."""
    (tmp_path / "named").mkdir()
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "named"))
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda _: str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def offline(cache, monkeypatch):
    """The cache without network access; returns the list of requested addresses."""
    tried = []

    def fail(url, **_):
        tried.append(url)
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", fail)
    return tried


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"/good": GOOD, "/bad": b"<html>sign in</html>", "/short": GOOD[:100]}.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(GOOD) if self.path == "/short" else len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def left_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def test_data_folder_is_searched_before_the_cache(cache):
    file = DataFile("set/file", DIGEST)
    assert file.local() is None
    for folder in (cache, files.folders()[0]):
        (folder / "set").mkdir(parents=True)
        (folder / "set/file").write_bytes(GOOD)
        assert file.get() == folder / "set/file"


def test_file_is_downloaded_once(cache, web):
    file = DataFile("set/file", DIGEST, (f"{web}/good",))
    path = file.get()
    assert path == cache / "set/file"
    assert path.read_bytes() == GOOD
    assert DataFile("set/file", DIGEST).get() == path
    assert left_in(cache) == [path]


def test_second_address_is_tried(cache, web):
    assert DataFile("set/file", DIGEST, (f"{web}/none", f"{web}/good")).get().read_bytes() == GOOD


@pytest.mark.parametrize(
    ("page", "reason"), [("none", "HTTPError"), ("bad", "wrong digest"), ("short", "ChunkedEncodingError")]
)
def test_failed_download_leaves_no_file(cache, web, page, reason):
    with pytest.raises(TacitError, match=rf"cannot be downloaded from {web}/{page} \({reason}\); put it there"):
        DataFile("set/file", DIGEST, (f"{web}/{page}",)).get()
    assert left_in(cache) == []


def test_refused_connection_is_reported(cache):
    with pytest.raises(TacitError, match=r"\(ConnectionError\)"):
        DataFile("set/file", DIGEST, ("http://127.0.0.1:9/file",)).get()


def test_interrupted_download_leaves_no_file(cache, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(requests, "get", stop)
    with pytest.raises(KeyboardInterrupt):
        DataFile("set/file", DIGEST, ("http://127.0.0.1:9/file",)).get()
    assert left_in(cache) == []


def test_unwritable_cache_is_reported(cache, web):
    cache.write_text("a file where the folder should be")
    with pytest.raises(TacitError, match="cannot be downloaded"):
        DataFile("set/file", DIGEST, (f"{web}/good",)).get()


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "a9a", "w8a", "mushrooms"])
def test_error_for_missing_files_names_folders_and_remedy(offline, cache, name):
    with pytest.raises(TacitError) as caught:
        datasets.build(name)
    text = str(caught.value)
    assert str(cache) in text
    assert "named or " in text
    assert "set TACIT_DATA to the folder" in text
    assert "\n" not in text
    assert 1 <= len(offline) <= 2
    assert all(url in text for url in offline)
    assert left_in(cache) == []


def test_subset_cannot_be_downloaded(offline):
    with pytest.raises(TacitError, match=r"cifar10_10k.npz is not in .*named or .*cache; put it there"):
        datasets.build("cifar10", {"edition": "10k"})
    assert offline == []


def test_data_folder_must_exist(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(TacitError, match=r"TACIT_DATA is .*nowhere, which is not a folder"):
        datasets.build("mnist")


@pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(GOOD)[:50]], ids=["empty", "other", "cut"])
@pytest.mark.parametrize(("name", "path"), [("mnist", "mnist/train-images-idx3-ubyte.gz"), ("a9a", "libsvm/a9a.gz")])
def test_damaged_file_is_refused(offline, name, path, content):
    file = files.folders()[0] / path
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(
        TacitError, match=rf"{file} (is damaged|cannot be read).*; delete it and download it again"
    ) as caught:
        datasets.build(name)
    assert "\n" not in str(caught.value)
    assert offline == []


def test_libsvm_digest_depends_only_on_the_content(tmp_path):
    texts = (b"+1 1:1 3:0.5\n-1 2:1\n", b"1 1:1.0 3:.5 \r\n-1 2:1 \r\n", b"+1 1:1 3:0.5\n-1 2:2\n")
    for i, text in enumerate(texts):
        (tmp_path / f"{i}").write_bytes(text)
        (tmp_path / f"{i}.gz").write_bytes(gzip.compress(text))
    plain = [libsvm._digest(tmp_path / f"{i}") for i in range(3)]
    assert plain == [libsvm._digest(tmp_path / f"{i}.gz") for i in range(3)]
    assert plain[0] == plain[1] != plain[2]
