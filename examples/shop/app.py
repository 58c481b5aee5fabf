"""One service of a shop, with the web framework Flask. With BACKEND, its page calls another service."""

import argparse
import os

import flask
import waitress
from urllib import request

app = flask.Flask(__name__)
backend = os.environ.get("BACKEND")


@app.get("/health")
def health():
    return "ready"


@app.get("/items")
def items():
    if not backend:
        return flask.jsonify(["scales", "weights"])
    with request.urlopen(f"{backend}/items", timeout=5) as response:
        return flask.Response(response.read(), mimetype="application/json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    waitress.serve(app, host=options.host, port=options.port, threads=8)
