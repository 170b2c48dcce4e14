"""Downloads from a local server: successful ones and failures."""

import gzip
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pooch
import pytest
from paper.datasets import download, fetch, load_mnist, mnist, verify
from paper.errors import DataCorruptError, PaperError

from tests.paper.synthetic import (
    REAL,
    accept_bsds,
    accept_mnist,
    needs_bsds,
    needs_mnist,
    write_bsds,
    write_mnist,
)

pytestmark = pytest.mark.usefixtures("no_other_data")

IMAGES = "train-images-idx3-ubyte"


class Server:
    """A server of ``files`` that sends only a half of those in ``truncated``."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.truncated: set[str] = set()
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                body = server.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if self.path in server.truncated else body)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirrors = (f"{server.url}/first/", f"{server.url}/second/")
    monkeypatch.setattr(download, "MNIST_MIRRORS", mirrors)
    monkeypatch.setattr(download, "BSDS_MIRRORS", mirrors)
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture
def contents(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The uncompressed files of a tiny MNIST that the first mirror offers."""
    contents = write_mnist(tmp_path / "source")
    accept_mnist(monkeypatch, contents)
    server.files = {
        f"/first/{name}.gz": gzip.compress(contents[name], mtime=0) for name in contents
    }
    return contents


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_mnist_is_fetched_once(
    tmp_path: Path,
    server: Server,
    contents: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = fetch("mnist", tmp_path / "new" / "data")
    assert folder == tmp_path / "new" / "data" / "mnist"
    assert files_in(tmp_path / "new") == sorted(f"data/mnist/{name}.gz" for name in contents)
    for name in contents:
        assert gzip.decompress((folder / f"{name}.gz").read_bytes()) == contents[name]
    assert all(entry.ok for entry in verify("mnist", folder.parent))
    assert len(load_mnist(data_dir=folder.parent)[0]) == 20
    assert os.listdir(folder.parent) == ["mnist"]
    assert capsys.readouterr().out.count("downloaded, sha256 is correct") == 4
    server.requests.clear()
    fetch("mnist", folder.parent)
    assert server.requests == []
    assert capsys.readouterr().out.count("already there") == 4


def test_only_missing_or_wrong_files_are_fetched(
    tmp_path: Path, server: Server, contents: dict[str, bytes]
) -> None:
    folder = fetch("mnist", tmp_path, report=lambda line: None)
    server.requests.clear()
    (folder / IMAGES).write_bytes(contents[IMAGES][:-5])  # wrong, and the .gz is missing
    (folder / f"{IMAGES}.gz").unlink()
    labels = folder / "t10k-labels-idx1-ubyte"
    packed = labels.with_name(f"{labels.name}.gz")
    packed.write_bytes(packed.read_bytes()[:-4])
    fetch("mnist", tmp_path, report=lambda line: None)
    assert server.requests == [f"/first/{IMAGES}.gz", f"/first/{labels.name}.gz"]
    assert all(entry.ok for entry in verify("mnist", tmp_path))


def test_default_folder_is_the_variable_or_the_cache(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch("mnist", report=lambda line: None) == tmp_path / "cache" / "mnist"
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path / "variable"))
    assert fetch("mnist", report=lambda line: None) == tmp_path / "variable" / "mnist"
    assert len(load_mnist("test")[0]) == 20


@pytest.mark.parametrize("failure", ["404", "truncated", "other content", "broken gzip"])
def test_second_mirror_is_used_if_the_first_fails(
    tmp_path: Path, server: Server, contents: dict[str, bytes], failure: str
) -> None:
    good = server.files.pop(f"/first/{IMAGES}.gz")
    server.files[f"/second/{IMAGES}.gz"] = good
    if failure == "truncated":
        server.files[f"/first/{IMAGES}.gz"] = good
        server.truncated.add(f"/first/{IMAGES}.gz")
    elif failure == "other content":
        server.files[f"/first/{IMAGES}.gz"] = gzip.compress(contents["t10k-images-idx3-ubyte"])
    elif failure == "broken gzip":
        server.files[f"/first/{IMAGES}.gz"] = good[:-9]
    folder = fetch("mnist", tmp_path / "data", report=lambda line: None)
    assert server.requests[:2] == [f"/first/{IMAGES}.gz", f"/second/{IMAGES}.gz"]
    assert files_in(tmp_path / "data") == sorted(f"mnist/{name}.gz" for name in contents)
    assert gzip.decompress((folder / f"{IMAGES}.gz").read_bytes()) == contents[IMAGES]


def test_error_gives_the_reason_for_each_mirror_and_no_file_is_left(
    tmp_path: Path, server: Server, contents: dict[str, bytes]
) -> None:
    path = f"/first/{IMAGES}.gz"
    server.files[path] = server.files[path][:-1]
    with pytest.raises(PaperError, match="The download failed from") as caught:
        fetch("mnist", tmp_path / "data", report=lambda line: None)
    assert f"{path} (the downloaded file is truncated or not the expected one) and " in str(
        caught.value
    )
    assert f"/second/{IMAGES}.gz (HTTP status 404)" in str(caught.value)
    assert files_in(tmp_path / "data") == []


def test_missing_network_is_reported(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MNIST_MIRRORS", ("http://127.0.0.1:9/",))
    with pytest.raises(PaperError, match=rf"127.0.0.1:9/{IMAGES}.gz \(ConnectionError\)"):
        fetch("mnist", tmp_path / "data", report=lambda line: None)


def test_interruption_leaves_complete_files_only(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = pooch.HTTPDownloader.__call__

    def interrupted(self: Any, url: str, path: str, *args: Any) -> None:
        complete(self, url, path, *args)
        if "t10k-images" in url:
            assert Path(path).exists()
            raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    data = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        fetch("mnist", data, report=lambda line: None)
    assert files_in(data) == [f"mnist/{name}.gz" for name in sorted(mnist.FILES["train"])]
    assert os.listdir(data) == ["mnist"]
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", complete)
    fetch("mnist", data, report=lambda line: None)
    assert all(entry.ok for entry in verify("mnist", data))


def archive(folder: Path, extra: dict[str, bytes] | None = None) -> bytes:
    """Return an archive of the images like the published one, with additional members."""
    members = {
        f"BSDS300/images/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*.jpg"))
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (members | (extra or {})).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("BSDS300/images/train/link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


@pytest.fixture
def images(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny BSDS300 that the first mirror offers, with unwanted members in the archive."""
    folder = write_bsds(tmp_path / "source")
    accept_bsds(monkeypatch, folder)
    unwanted = {
        "BSDS300/iids_train.txt": b"1 2 3",
        "../train/evil.jpg": b"evil",
        "/train/evil.jpg": b"evil",
        "BSDS300/images/train/../../../evil.jpg": b"evil",
        "BSDS300/images/human/a.jpg": b"evil",
    }
    server.files["/first/BSDS300-images.tgz"] = archive(folder, unwanted)
    return folder


def test_only_the_images_of_bsds_are_extracted(
    tmp_path: Path, server: Server, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "deep" / "data"
    folder = fetch("bsds300", data)
    assert files_in(folder) == files_in(images)
    assert files_in(tmp_path / "deep") == [f"data/bsds300/{name}" for name in files_in(images)]
    assert all(entry.ok for entry in verify("bsds300", data))
    assert "non-commercial research" in capsys.readouterr().out
    server.requests.clear()
    fetch("bsds300", data)
    assert server.requests == []


def test_damaged_bsds_is_repaired(tmp_path: Path, images: Path) -> None:
    folder = fetch("bsds300", tmp_path / "data", report=lambda line: None)
    (folder / "train" / "train-0.jpg").write_bytes(b"damaged")
    (folder / "test" / "test-1.jpg").unlink()
    assert not any(entry.ok for entry in verify("bsds300", tmp_path / "data"))
    fetch("bsds300", tmp_path / "data", report=lambda line: None)
    assert all(entry.ok for entry in verify("bsds300", tmp_path / "data"))


def test_other_images_are_not_removed_but_refused(tmp_path: Path, images: Path) -> None:
    mine = tmp_path / "data" / "bsds300" / "test" / "mine.jpg"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(
        DataCorruptError, match=r"test contains images that are not part of BSDS300 \(mine.jpg\)"
    ):
        fetch("bsds300", tmp_path / "data", report=lambda line: None)
    assert files_in(tmp_path / "data") == ["bsds300/test/mine.jpg"]


@pytest.mark.parametrize(
    "failure", ["truncated", "missing image", "changed image", "not an archive"]
)
def test_nothing_is_left_of_a_bad_archive(
    tmp_path: Path, server: Server, images: Path, failure: str
) -> None:
    path = "/first/BSDS300-images.tgz"
    if failure == "truncated":
        server.files[path] = server.files[path][:-300]
    elif failure == "missing image":
        (images / "test" / "test-0.jpg").unlink()
        server.files[path] = archive(images)
    elif failure == "changed image":
        (images / "test" / "test-0.jpg").write_bytes(b"other")
        server.files[path] = archive(images)
    else:
        server.files[path] = b"<html>moved</html>"
    with pytest.raises(PaperError, match=r"first.*\(the downloaded file is truncated.*second.*404"):
        fetch("bsds300", tmp_path / "data", report=lambda line: None)
    assert os.listdir(tmp_path / "data") == []
    server.files["/second/BSDS300-images.tgz"] = archive(write_bsds(tmp_path / "again"))
    assert files_in(fetch("bsds300", tmp_path / "data", report=lambda line: None))


def test_verify_reports_the_problem_of_each_file(
    tmp_path: Path, contents: dict[str, bytes]
) -> None:
    folder = tmp_path / "source" / "mnist"
    (folder / IMAGES).write_bytes(contents[IMAGES][:-1])
    (folder / "train-labels-idx1-ubyte").unlink()
    checked = {entry.path.name: entry for entry in verify("mnist", tmp_path / "source")}
    assert [entry.ok for entry in checked.values()] == [False, False, True, True]
    assert "fetch it again" in (checked[IMAGES].problem or "")
    assert "has no file" in (checked["train-labels-idx1-ubyte"].problem or "")
    assert checked["t10k-labels-idx1-ubyte"].description == "MNIST, t10k-labels-idx1-ubyte"


@needs_mnist
@needs_bsds
def test_real_data_are_correct_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REAL
    for mirrors in ("MNIST_MIRRORS", "BSDS_MIRRORS"):
        monkeypatch.setattr(download, mirrors, ())
    for name, n in (("mnist", 4), ("bsds300", 2)):
        assert [entry.problem for entry in verify(name, REAL)] == [None] * n
        assert fetch(name, REAL, report=lambda line: None) == Path(REAL) / name


def test_unknown_names_are_refused() -> None:
    for function in (fetch, verify):
        with pytest.raises(ValueError, match="name must be 'mnist' or 'bsds300', got 'cifar'"):
            function("cifar")
