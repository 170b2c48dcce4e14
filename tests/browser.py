"""Opens pages in Chromium and returns what a script in the browser measures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
# The browser refuses requests to other hosts and reports them as violations of this policy.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
RECORD_FAULTS = b"""<head><script>
window.faults = [];
window.addEventListener("error", event => {
  const source = event.target && (event.target.src || event.target.href);
  faults.push(event.message || `cannot load ${source}`);
}, true);
window.addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
document.addEventListener("securitypolicyviolation",
  event => faults.push(`request to ${event.blockedURI}`));
const consoleError = console.error;
console.error = (...words) => { faults.push(words.join(" ")); consoleError(...words); };
</script>"""
HARNESS = """<!doctype html><meta charset="utf-8"><title>test</title>
<link rel="icon" href="data:,"><body><script>
const sleep = milliseconds => new Promise(done => setTimeout(done, milliseconds));
async function open(url, width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 800px; border: 0`;
  frame.src = url;
  const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
  document.body.replaceChildren(frame);
  await loaded;
  const {MathJax} = frame.contentWindow;
  if (MathJax && MathJax.startup && MathJax.startup.promise) await MathJax.startup.promise;
  await sleep(30);
  return frame;
}
async function until(condition) {
  for (let i = 0; i < 100 && !condition(); i++) await sleep(100);
}
(async () => {
  const run = async () => { %s };
  const result = await run().catch(error => ({failure: String(error)}));
  await fetch("/result", {method: "POST", body: JSON.stringify(result)});
})();
</script>"""


class SiteServer(ThreadingHTTPServer):
    """Serves a folder and one page with a script, which sends its result back."""

    daemon_threads = True  # a connection that the browser leaves open does not delay the end

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self.script = folder, script
        self.missing: list[str] = []
        self.result: Any = None
        self.finished = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(SimpleHTTPRequestHandler):
    server: SiteServer

    def __init__(self, request: Any, address: Any, server: SiteServer) -> None:
        super().__init__(request, address, server, directory=str(server.folder))

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self.path == "/harness":
            self.send_page((HARNESS % self.server.script).encode())
        elif path.suffix == ".html" and path.is_file():
            self.send_page(path.read_bytes().replace(b"<head>", RECORD_FAULTS, 1))
        else:
            if not path.is_file():
                self.server.missing.append(self.path)
            super().do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.result = json.loads(body)
        self.send_page(b"")
        self.server.finished.set()

    def send_page(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


def run_in_browser(folder: Path, profile: Path, script: str, seconds: float) -> SiteServer:
    """Run the body of an async function in Chromium; its value is ``result`` of the server."""
    server = SiteServer(folder, script)
    address = f"http://127.0.0.1:{server.server_port}/harness"
    with serving(server), chromium(profile, address):
        assert server.finished.wait(seconds), "the browser did not finish"
    return server


@contextmanager
def chromium(profile: Path, address: str) -> Iterator[None]:
    """Open an address in Chromium, and end all its processes afterwards."""
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-proxy-server",
            f"--user-data-dir={profile}",
            "--window-size=1500,1000",
            address,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        # Chromium starts processes that may outlive it. They are in its process group.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def serving(server: SiteServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
