"""Serves the built book on localhost, at the first free port from 8000 on."""

from __future__ import annotations

import functools
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from tools.book import HTML

FIRST_PORT, PORTS = 8000, 100


def server() -> ThreadingHTTPServer:
    """A server of the built pages that listens on this machine only.

    Raises:
        OSError: none of the ports is free.
    """
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(HTML))
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            continue
    raise OSError(f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} on localhost")


if __name__ == "__main__":
    with server() as httpd:
        print(f"The book: http://127.0.0.1:{httpd.server_port}/   (Ctrl-C ends it)", flush=True)
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            sys.exit(0)
