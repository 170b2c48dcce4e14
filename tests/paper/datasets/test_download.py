"""Downloads from a server of our own: good ones, and all the ways to fail."""

import gzip
import io
import os
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lincode.datasets import DataCorruptError, download, fetch, load_mnist, mnist, verify
from tests.datasets.synthetic import (
    REAL,
    believe_bsds,
    believe_mnist,
    needs_bsds,
    needs_mnist,
    tiny_bsds,
    tiny_mnist,
)

IMAGES = "train-images-idx3-ubyte"


class Server:
    """Answers with ``files``; says more bytes come than do for those in ``cut``."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                body = server.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if self.path in server.cut else body)

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
    """The unpacked files of a tiny MNIST, which the first mirror has."""
    contents = tiny_mnist(tmp_path / "source")
    believe_mnist(monkeypatch, contents)
    server.files = {f"/first/{name}.gz": gzip.compress(contents[name]) for name in contents}
    return contents


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_mnist_is_fetched_once(
    tmp_path: Path,
    server: Server,
    contents: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = fetch("mnist", tmp_path / "new" / "data")
    assert folder == tmp_path / "new" / "data" / "mnist"
    assert left_in(tmp_path / "new") == sorted(f"data/mnist/{name}" for name in contents)
    assert {name: (folder / name).read_bytes() for name in contents} == contents
    assert all(entry.ok for entry in verify("mnist", folder.parent))
    assert len(load_mnist(data_dir=folder.parent)[0]) == 20
    assert os.listdir(folder.parent) == ["mnist"]
    assert capsys.readouterr().out.count("downloaded, sha256 right") == 4
    server.asked.clear()
    fetch("mnist", folder.parent)
    assert server.asked == []
    assert capsys.readouterr().out.count("there already") == 4


def test_only_what_is_missing_or_wrong_is_fetched(
    tmp_path: Path, server: Server, contents: dict[str, bytes]
) -> None:
    folder = fetch("mnist", tmp_path, say=lambda line: None)
    server.asked.clear()
    (folder / IMAGES).write_bytes(contents[IMAGES][:-5])
    labels = folder / "t10k-labels-idx1-ubyte"
    (folder / f"{labels.name}.gz").write_bytes(gzip.compress(labels.read_bytes())[:-4])
    labels.unlink()
    fetch("mnist", tmp_path, say=lambda line: None)
    assert server.asked == [f"/first/{IMAGES}.gz", f"/first/{labels.name}.gz"]
    assert all(entry.ok for entry in verify("mnist", tmp_path))


def test_fetch_fills_the_folder_of_the_variable_or_the_cache(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch("mnist", say=lambda line: None) == tmp_path / "cache" / "mnist"
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path / "variable"))
    assert fetch("mnist", say=lambda line: None) == tmp_path / "variable" / "mnist"
    assert len(load_mnist("test")[0]) == 20


@pytest.mark.parametrize("failure", ["404", "cut short", "other content", "broken gzip"])
def test_where_the_first_mirror_fails_the_second_serves(
    tmp_path: Path, server: Server, contents: dict[str, bytes], failure: str
) -> None:
    good = server.files.pop(f"/first/{IMAGES}.gz")
    server.files[f"/second/{IMAGES}.gz"] = good
    if failure == "cut short":
        server.files[f"/first/{IMAGES}.gz"] = good
        server.cut.add(f"/first/{IMAGES}.gz")
    elif failure == "other content":
        server.files[f"/first/{IMAGES}.gz"] = gzip.compress(contents["t10k-images-idx3-ubyte"])
    elif failure == "broken gzip":
        server.files[f"/first/{IMAGES}.gz"] = good[:-9]
    folder = fetch("mnist", tmp_path / "data", say=lambda line: None)
    assert server.asked[:2] == [f"/first/{IMAGES}.gz", f"/second/{IMAGES}.gz"]
    assert left_in(tmp_path / "data") == sorted(f"mnist/{name}" for name in contents)
    assert (folder / IMAGES).read_bytes() == contents[IMAGES]


def test_where_all_mirrors_fail_a_sentence_has_the_reasons_and_nothing_is_left(
    tmp_path: Path, server: Server, contents: dict[str, bytes]
) -> None:
    path = f"/first/{IMAGES}.gz"
    server.files[path] = server.files[path][:-1]
    with pytest.raises(OSError, match="No download was good") as caught:
        fetch("mnist", tmp_path / "data", say=lambda line: None)
    assert f"{path} (what came was truncated or is something else) and " in str(caught.value)
    assert f"/second/{IMAGES}.gz (HTTP status 404)" in str(caught.value)
    assert os.listdir(tmp_path / "data") == []


def test_no_network_is_a_sentence_too(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MNIST_MIRRORS", ("http://127.0.0.1:9/",))
    with pytest.raises(OSError, match=rf"127.0.0.1:9/{IMAGES}.gz \(ConnectionError\)"):
        fetch("mnist", tmp_path / "data", say=lambda line: None)


def test_an_interruption_leaves_what_was_complete_and_no_more(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pooch = import_module("pooch")  # untyped, as in the code
    downloader = pooch.HTTPDownloader

    class Interrupted(downloader):  # type: ignore[misc,valid-type]
        def __call__(self, url: str, path: str, *args: Any) -> None:
            super().__call__(url, path, *args)
            if "t10k-images" in url:
                assert Path(path).exists()
                raise KeyboardInterrupt

    monkeypatch.setattr(pooch, "HTTPDownloader", Interrupted)
    data = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        fetch("mnist", data, say=lambda line: None)
    assert left_in(data) == [f"mnist/{name}" for name in sorted(mnist.FILES["train"])]
    assert os.listdir(data) == ["mnist"]
    monkeypatch.setattr(pooch, "HTTPDownloader", downloader)
    fetch("mnist", data, say=lambda line: None)
    assert all(entry.ok for entry in verify("mnist", data))


def test_without_pooch_a_sentence_says_so(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match="Downloading needs pooch: pip install pooch"):
        fetch("mnist", tmp_path / "data")
    fetch("mnist", tmp_path / "source")  # complete: nothing to download


def archive(folder: Path, extra: dict[str, bytes] | None = None) -> bytes:
    """The images packed as the published ones are, with other members among them."""
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
    """A tiny BSDS300, which the first mirror has with unwanted members."""
    folder = tiny_bsds(tmp_path / "source")
    believe_bsds(monkeypatch, folder)
    unwanted = {
        "BSDS300/iids_train.txt": b"1 2 3",
        "../train/evil.jpg": b"evil",
        "/train/evil.jpg": b"evil",
        "BSDS300/images/train/../../../evil.jpg": b"evil",
        "BSDS300/images/human/a.jpg": b"evil",
    }
    server.files["/first/BSDS300-images.tgz"] = archive(folder, unwanted)
    return folder


def test_bsds_is_fetched_and_only_its_images(
    tmp_path: Path, server: Server, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "deep" / "data"
    folder = fetch("bsds300", data)
    assert left_in(folder) == left_in(images)
    assert left_in(tmp_path / "deep") == [f"data/bsds300/{name}" for name in left_in(images)]
    assert all(entry.ok for entry in verify("bsds300", data))
    assert "non-commercial research" in capsys.readouterr().out
    server.asked.clear()
    fetch("bsds300", data)
    assert server.asked == []


def test_bsds_is_mended(tmp_path: Path, images: Path) -> None:
    folder = fetch("bsds300", tmp_path / "data", say=lambda line: None)
    (folder / "train" / "train-0.jpg").write_bytes(b"damaged")
    (folder / "test" / "test-1.jpg").unlink()
    assert not any(entry.ok for entry in verify("bsds300", tmp_path / "data"))
    fetch("bsds300", tmp_path / "data", say=lambda line: None)
    assert all(entry.ok for entry in verify("bsds300", tmp_path / "data"))


def test_images_of_others_are_neither_removed_nor_mixed_in(tmp_path: Path, images: Path) -> None:
    mine = tmp_path / "data" / "bsds300" / "test" / "mine.jpg"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(
        DataCorruptError, match=r"test has images that BSDS300 has not \(mine.jpg\)"
    ):
        fetch("bsds300", tmp_path / "data", say=lambda line: None)
    assert left_in(tmp_path / "data") == ["bsds300/test/mine.jpg"]


@pytest.mark.parametrize("failure", ["truncated", "an image less", "a changed image", "no tar"])
def test_a_bad_archive_leaves_nothing(
    tmp_path: Path, server: Server, images: Path, failure: str
) -> None:
    path = "/first/BSDS300-images.tgz"
    if failure == "truncated":
        server.files[path] = server.files[path][:-300]
    elif failure == "an image less":
        (images / "test" / "test-0.jpg").unlink()
        server.files[path] = archive(images)
    elif failure == "a changed image":
        (images / "test" / "test-0.jpg").write_bytes(b"other")
        server.files[path] = archive(images)
    else:
        server.files[path] = b"<html>moved</html>"
    with pytest.raises(OSError, match=r"first.*\(what came was truncated.*second.*404"):
        fetch("bsds300", tmp_path / "data", say=lambda line: None)
    assert os.listdir(tmp_path / "data") == []
    server.files["/second/BSDS300-images.tgz"] = archive(tiny_bsds(tmp_path / "again"))
    assert left_in(fetch("bsds300", tmp_path / "data", say=lambda line: None))


def test_verify_tells_what_is_wrong_with_each_file(
    tmp_path: Path, contents: dict[str, bytes]
) -> None:
    folder = tmp_path / "source" / "mnist"
    (folder / IMAGES).write_bytes(contents[IMAGES][:-1])
    (folder / "train-labels-idx1-ubyte").unlink()
    report = {entry.path.name: entry for entry in verify("mnist", tmp_path / "source")}
    assert [entry.ok for entry in report.values()] == [False, False, True, True]
    assert "fetch it again" in (report[IMAGES].problem or "")
    assert "has no file" in (report["train-labels-idx1-ubyte"].problem or "")
    assert report["t10k-labels-idx1-ubyte"].what == "MNIST, t10k-labels-idx1-ubyte"


@needs_mnist
@needs_bsds
def test_the_real_data_are_verified_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REAL
    for mirrors in ("MNIST_MIRRORS", "BSDS_MIRRORS"):
        monkeypatch.setattr(download, mirrors, ())
    for name, n in (("mnist", 4), ("bsds300", 2)):
        assert [entry.problem for entry in verify(name, REAL)] == [None] * n
        assert fetch(name, REAL, say=lambda line: None) == Path(REAL) / name


def test_unknown_names_are_refused() -> None:
    for function in (fetch, verify):
        with pytest.raises(ValueError, match="name must be 'mnist' or 'bsds300', got 'cifar'"):
            function("cifar")
