"""A shop that reads from Valkey or Redis, without libraries: store.py HOST PORT STORE_HOST STORE_PORT."""

import http.server
import socket
import sys

host, port, store_host, store_port = sys.argv[1:]


class Store:
    """A connection that asks for one value at a time."""

    def __init__(self):
        self.socket = socket.create_connection((store_host, int(store_port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.socket.makefile("rb")

    def get(self, key):
        self.socket.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key))
        length = int(self.lines.readline()[1:])
        if length < 0:
            return None
        return self.lines.read(length + 2)[:-2]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together; without this, the body waits for an acknowledgement of the head.
    wbufsize = -1
    disable_nagle_algorithm = True
    store = None

    def do_GET(self):
        if self.path == "/health":
            return self.answer(200, b"ready")
        # Each connection has a thread of its own, and so a connection to the datastore.
        self.store = self.store or Store()
        value = self.store.get(self.path.encode())
        return self.answer(404 if value is None else 200, value or b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server((host, int(port)), Handler).serve_forever()
