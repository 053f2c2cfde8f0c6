"""A page of this machine that shows the run while it goes on.

It reads what plant and cloud log in the run's folder, never the gateway's file.
"""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
#: Most requests that are answered at once.
MOST_CLIENTS = 8
PAGE = Path(__file__).with_name("live.html")


class Server(ThreadingHTTPServer):
    """Answers a few clients at once and turns the others away."""

    daemon_threads = True

    def __init__(self, address, handler):
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)

    def process_request(self, request, client_address):
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class LivePage:
    """Serves the page and its signals at a port of the loopback interface.

    Port 0 takes a free one. The page ends with the run.
    """

    def __init__(self, folder, samples, step, port=0):
        self._folder = folder
        self._samples = samples
        self._step = step
        self._server = Server((HOST, port), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.address = f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def signals(self):
        """The positions so far, as lists of times [s] and positions [m]."""
        plant = logged(self._folder / "plant.csv")
        cloud = logged(self._folder / "cloud.csv")
        return {
            "duration": self._samples * self._step,
            "truth": self._points(plant, 1),
            "published": self._points(cloud, 1),
            "estimate": self._points(cloud, 2),
        }

    def _points(self, rows, column):
        return [
            [self._step * row[0], row[column]]
            for row in rows
            if math.isfinite(row[column])  # else the sample was lost
        ]

    def _handler(self):
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # seconds for a request

            def do_GET(self):
                port = self.server.server_port
                if self.headers.get("Host") not in (
                    f"{HOST}:{port}",
                    f"localhost:{port}",
                ):
                    self.send_error(
                        403
                    )  # a page elsewhere that resolves to this machine
                elif self.path == "/":
                    self._answer("text/html; charset=utf-8", PAGE.read_bytes())
                elif self.path == "/signals.json":
                    text = json.dumps(page.signals())
                    self._answer("application/json", text.encode())
                else:
                    self.send_error(404)

            def _answer(self, kind, content):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *message):
                """Requests are not logged: the terminal shows the run."""

        return Handler


def logged(path):
    """The rows of a log so far, without a last line that is still being written."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    return [
        [float(value) for value in line.split()]
        for line in lines
        if line.endswith("\n")
    ]
