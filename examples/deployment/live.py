"""A page of this machine that shows the run while it goes on, and acts on it.

It reads what plant and cloud log in the run's folder, and the ledger's sum, never the
gateway's file. Its two buttons let somebody enter a room, and kill the gateway.
"""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from design import ROOMS, STEP
from detector import ALARM, Detector

import privcontrol as pc

HOST = "127.0.0.1"
#: Most requests that are answered at once.
MOST_CLIENTS = 8
HERE = Path(__file__).parent
FILES = {
    "/": ("live.html", "text/html; charset=utf-8"),
    "/live.js": ("live.js", "text/javascript; charset=utf-8"),
    "/live.css": ("live.css", "text/css; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: What a page elsewhere cannot send without asking first.
OWN = "X-Live-Page"


class Server(ThreadingHTTPServer):
    """Answers a few clients at once and turns the others away."""

    daemon_threads = True
    #: Who finds no place in this queue tries again after seconds.
    request_queue_size = 64

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

    Port 0 takes a free one. The page ends with the run. ``kill`` is set when somebody has
    asked to kill the gateway; whoever does it clears it.
    """

    def __init__(self, folder, samples, port=0):
        self._folder = folder
        self._samples = samples
        self._server = Server((HOST, port), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._lock = threading.Lock()
        loop = pc.load(folder / "loop.json")
        self._guarantee = loop.guarantee
        self._detectors = {
            "true": Detector(loop.plant, None),
            "published": Detector(loop.plant, loop.noise.system),
        }
        self.kill = threading.Event()
        self.address = f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._thread.join()
        self.close()

    def close(self):
        """Free the port."""
        self._server.server_close()

    def signals(self):
        """The run so far: curves as lists of times [h] and values, events, the ledger."""
        with self._lock:
            plant = logged(self._folder / "plant.csv", 9)
            cloud = logged(self._folder / "cloud.csv", 7)
            known = min(len(plant), len(cloud))
            for t in range(len(self._detectors["true"].scores), known):
                heat = plant[t, 7:9]
                self._detectors["true"].see(plant[t, 3:5], heat)
                self._detectors["published"].see(cloud[t, 1:3], heat)
            rooms = {
                room: {
                    "truth": points(plant, 1 + k),
                    "published": points(cloud, 1 + k),
                    "estimate": points(cloud, 3 + k),
                    "present": points(plant, 5 + k),
                    "scores": {
                        kind: [[STEP * t, one[k]] for t, one in enumerate(test.scores)]
                        for kind, test in self._detectors.items()
                    },
                }
                for k, room in enumerate(ROOMS)
            }
        visits = self._lines("visits")
        found = 0.05
        if visits:
            found = self._guarantee.repeated(len(visits)).detection(0.05)
        return {
            "duration": self._samples * STEP,
            "alarm": ALARM,
            "rooms": rooms,
            "visits": len(visits),
            "found": found,
            "kills": [STEP * float(line) for line in self._lines("kills")],
            "ledger": self._ledger(),
        }

    def _lines(self, name):
        path = self._folder / name
        return path.read_text("ascii").splitlines() if path.exists() else []

    def _ledger(self):
        """What has been charged, in words."""
        path = self._folder / "ledger.sqlite"
        if not path.exists():
            return "no ledger"
        ledger = pc.PrivacyLedger.open(path)
        count, whole = len(ledger.history), ledger.budget.epsilon
        return (
            f"charged {count} time{'s' * (count != 1)}, {ledger.remaining:g} of "
            f"epsilon = {whole:g} left at delta = {ledger.budget.delta:g}"
        )

    def enter(self, room):
        """Let somebody enter a room; they stay as long as the noise hides."""
        with (self._folder / "visits").open("a", encoding="ascii") as file:
            file.write(f"{room}\n")

    def killed(self):
        """Note that the gateway was killed now."""
        sample = len(logged(self._folder / "plant.csv", 9))
        with (self._folder / "kills").open("a", encoding="ascii") as file:
            file.write(f"{sample}\n")

    def _asked(self, path):
        """Do what a button asks for; False for anything else."""
        if path == "/kill":
            self.kill.set()
        elif path.removeprefix("/enter/") in ROOMS:
            self.enter(path.removeprefix("/enter/"))
        else:
            return False
        return True

    def _handler(self):
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # seconds for a request

            def do_GET(self):
                if not self._is_local():
                    self.send_error(403)
                elif self.path in FILES:
                    name, kind = FILES[self.path]
                    self._answer(kind, (HERE / name).read_bytes())
                elif self.path == "/signals.json":
                    text = json.dumps(page.signals())
                    self._answer("application/json", text.encode())
                else:
                    self.send_error(404)

            def do_POST(self):
                if not self._is_local() or self.headers.get(OWN) is None:
                    self.send_error(403)
                elif page._asked(self.path):
                    self._answer("application/json", b"{}")
                else:
                    self.send_error(404)

            def _is_local(self):
                """Whether it is not a page elsewhere that resolves to this machine."""
                port = self.server.server_port
                hosts = (f"{HOST}:{port}", f"localhost:{port}")
                return self.headers.get("Host") in hosts

            def _answer(self, kind, content):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def end_headers(self):
                for name, value in HEADERS.items():
                    self.send_header(name, value)
                super().end_headers()

            def log_message(self, *message):
                """Requests are not logged: the terminal shows the run."""

        return Handler


def points(rows, column):
    """Times [h] and values of a column, without the samples that were lost."""
    return [
        [STEP * row[0], row[column]]
        for row in rows.tolist()
        if math.isfinite(row[column])
    ]


def logged(path, columns):
    """The rows (T, columns) of a log so far, without a last line still being written."""
    lines = []
    if path.exists():
        lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    rows = [
        [float(value) for value in line.split()]
        for line in lines
        if line.endswith("\n")
    ]
    return np.array(rows).reshape(len(rows), columns)
