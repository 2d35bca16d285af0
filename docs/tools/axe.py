"""Looks for what some readers cannot use in the built pages: `make docs-axe`.

    python -m docs.tools.axe build/docs axe.min.js

Each page is shown in a headless Chromium, in its light and in its dark colours, and axe examines
it. Findings that axe calls serious or critical are errors. The server listens on this host only.
"""

from __future__ import annotations

import functools
import http.server
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.tools import chromium

SECONDS = 120  # for one page
ERRORS = ("serious", "critical")
# The theme lets the keyboard reach wide blocks of code where there is a mouse, too.
_MOUSE = (
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,"
    "primaryPointerType=4,availablePointerTypes=4"
)

_EXAMINER = """<!doctype html><title>axe</title>
<iframe style="width: 1400px; height: 900px"></iframe>
<script>
const frame = document.querySelector("iframe");
const loaded = (target) => new Promise((done) => target.addEventListener("load", done));
async function examine(page) {
  const here = loaded(frame);
  frame.src = "/" + page;
  await here;
  const shown = frame.contentDocument, script = shown.createElement("script");
  shown.head.append(Object.assign(shown.createElement("style"), {
    textContent: "* { transition: none !important }" }));
  script.src = "/axe.min.js";
  const ready = loaded(script);
  shown.head.append(script);
  await ready;
  const found = [];
  for (const colours of ["default", "slate"]) {
    shown.body.setAttribute("data-md-color-scheme", colours);
    const result = await frame.contentWindow.axe.run(shown, { resultTypes: ["violations"] });
    for (const rule of result.violations)
      for (const node of rule.nodes)
        found.push({ page, colours, rule: rule.id, impact: node.impact, html: node.html,
                     why: node.failureSummary.split("\\n")[1].trim() });
  }
  return found;
}
const tell = (what) => fetch("/", { method: "POST", body: JSON.stringify(what) });
(async () => {
  for (const page of PAGES)
    await tell(await examine(page).catch((error) => ({ page, error: `${error}` })));
})();
</script>"""


class _Server(http.server.SimpleHTTPRequestHandler):
    """The site, a page that examines its pages, and what that page tells."""

    def __init__(self, *args: Any, more: dict[str, bytes], told: queue.Queue[Any], **kw: Any):
        self._more, self._told = more, told
        super().__init__(*args, **kw)

    def do_GET(self) -> None:
        if self.path not in self._more:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", str(len(self._more[self.path])))
        self.send_header("Content-Type", self.guess_type(self.path))
        self.end_headers()
        self.wfile.write(self._more[self.path])

    def do_POST(self) -> None:
        self._told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def findings(site: Path, axe: Path, pages: list[str]) -> Iterator[list[dict[str, str]]]:
    """What axe finds on each page of a site.

    Raises:
        queue.Empty: A page takes too long.
        RuntimeError: A page could not be examined.
    """
    told: queue.Queue[Any] = queue.Queue()
    examiner = _EXAMINER.replace("PAGES", json.dumps(pages))
    more = {"/axe.html": examiner.encode(), "/axe.min.js": axe.read_bytes()}
    handler = functools.partial(_Server, directory=str(site), more=more, told=told)
    with (
        tempfile.TemporaryDirectory() as profile,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/axe.html"
        browser = subprocess.Popen(
            [*chromium.command(Path(profile)), _MOUSE, address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for _ in pages:
                found = told.get(timeout=SECONDS)
                if isinstance(found, dict):
                    raise RuntimeError(f"{found['page']}: {found['error']}")
                yield found
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


def main() -> int:
    """Prints what it finds. Returns the exit code."""
    site, axe = map(Path, sys.argv[1:])
    pages = sorted(str(file.relative_to(site)) for file in site.rglob("*.html"))
    count = 0
    for found in findings(site, axe, pages):
        for each in found:
            if each["impact"] in ERRORS:
                count += 1
                print(
                    "{page}, {colours}: {impact}: {rule}: {html}\n    {why}".format(**each),
                    flush=True,
                )
    print(f"{len(pages)} pages, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    if not shutil.which(chromium.NAME):
        sys.exit(f"Debian's package is needed: apt-get install {chromium.NAME}")
    sys.exit(main())
