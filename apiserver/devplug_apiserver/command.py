# SPDX-License-Identifier: Apache-2.0
"""The command line: "run" serves, the other commands ask a server that runs, by the control socket in its folder."""
import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time
import urllib.parse

from . import resources
from .cluster import Cluster
from .releases import DEFAULT, RELEASES, Release
from .server import ControlServer

PROGRAM = "devplug-apiserver"
FOLDER = "/run/devplug-apiserver"
EXIT_FAILURE, EXIT_USAGE = 1, 2
SOCKET_PATH_MAX = 107


class Failure(Exception):
    """The command has failed: why."""


class Usage(Exception):
    """The command line is wrong: why."""


def control_path(folder):
    path = os.path.join(folder, "control")
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise Failure(f"the path of the control socket, {path}, is longer than {SOCKET_PATH_MAX} bytes; give a shorter --dir")
    return path


# --- run

def read_features(words):
    found = {}
    for word in (part for text in words for part in text.split(",")):
        name, separator, value = word.partition("=")
        if not separator or value not in ("true", "false"):
            raise Usage(f"--feature-gates does not accept {word!r}; write NAME=true or NAME=false")
        found[name] = value == "true"
    return found


def run(arguments):
    try:
        release = Release(arguments.release, read_features(arguments.feature_gates))
    except ValueError as error:
        raise Usage(str(error)) from error
    control_socket = control_path(arguments.dir)
    os.makedirs(arguments.dir, mode=0o755, exist_ok=True)
    if is_served(control_socket):
        raise Failure(f"another devplug-apiserver serves {arguments.dir}; give another --dir")
    # Before there are threads, which must not take them.
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    cluster = Cluster(arguments.dir, arguments.node or ["node-a"], release, arguments.address, arguments.port)
    # A server that is not stopped keeps the process alive.
    with contextlib.ExitStack() as stack:
        cluster.start()
        stack.callback(cluster.stop)
        control = ControlServer(control_socket, cluster)
        stack.callback(unlink, control_socket)
        stack.callback(control.stop)
        cluster.write_kubeconfigs()
        print(json.dumps({"event": "listening", "server": cluster.url(), "release": release.name,
                          "dir": os.path.abspath(arguments.dir)}), flush=True)
        signal.sigwait(signals)


def unlink(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_served(path):
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(path)
            return True
        except OSError:
            return False


# --- the other commands

class Control:
    """The control socket of a server that runs."""

    def __init__(self, folder):
        self.folder = folder

    def ask(self, method, path, body=None):
        """(code, body)"""
        place = control_path(self.folder)
        with socket.socket(socket.AF_UNIX) as peer:
            try:
                peer.connect(place)
            except OSError as error:
                raise Failure(f"no devplug-apiserver serves {place}: {error.strerror}; start "
                              f"\"{PROGRAM} run --dir {self.folder}\"") from error
            peer.sendall(json.dumps({"method": method, "path": path, "body": body}).encode() + b"\n")
            line = peer.makefile("rb").readline()
        if not line:
            raise Failure("devplug-apiserver has closed the connection")
        answer = json.loads(line)
        return answer["code"], answer["body"]

    def demand(self, method, path, body=None):
        """The body of a success."""
        code, found = self.ask(method, path, body)
        if code >= 300:
            raise Failure(found["message"])
        return found


def read_objects(path):
    """The objects of a file of JSON: one, a List, or several one after the other."""
    try:
        text = sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise Failure(f"{path} is not valid JSON: {error}; convert YAML first") from error
        yield from found["items"] if isinstance(found, dict) and isinstance(found.get("items"), list) else [found]


def object_path(found, namespace):
    """(path of the collection, path of the object, resource)"""
    resource = isinstance(found, dict) and resources.find_kind(found.get("apiVersion"), found.get("kind"))
    if not resource or not isinstance(found.get("metadata"), dict):
        raise Failure("an object needs apiVersion, kind and metadata, and a kind that devplug-apiserver serves")
    name = found["metadata"].get("name", "")
    collection = resources.collection_path(resource, found["metadata"].get("namespace") or namespace)
    return collection, f"{collection}/{urllib.parse.quote(name)}", resource


def describe(found, resource):
    metadata = found["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
    return f"{resource.kind} {name}"


def apply(arguments):
    control = Control(arguments.dir)
    for path in arguments.words:
        for found in read_objects(path):
            collection, place, resource = object_path(found, arguments.namespace)
            code, old = control.ask("GET", place) if found["metadata"].get("name") else (404, None)
            if code == 404:
                stored = control.demand("POST", collection, found)
            else:
                stored = control.demand("PUT", place, {**found, "metadata": {**old["metadata"], **found["metadata"]}})
            print(f"{describe(stored, resource)}: {'created' if code == 404 else 'configured'}")
            if resource is resources.CLAIMS:
                print_claim(control, f"{collection}/{stored['metadata']['name']}", stored)


def print_claim(control, path, stored):
    stored = control.demand("GET", path)
    results = stored.get("status", {}).get("allocation", {}).get("devices", {}).get("results")
    for result in results or []:
        print(f"  {result['request']}: {result['driver']}/{result['pool']}/{result['device']}")
    if results is None:
        metadata = stored["metadata"]
        reasons = [one["reason"] for one in control.demand("GET", "/devplug/pending")["pending"]
                   if (one["namespace"], one["name"]) == (metadata["namespace"], metadata["name"])]
        print(f"  pending: {reasons[0] if reasons else 'the claim has no requests'}")


def expand(path, namespace):
    """The path of "resourceslices" or "resourceclaims/NAME"."""
    if path.startswith("/"):
        return path
    plural, _, name = path.partition("/")
    resource = next((r for r in resources.RESOURCES if r.plural == plural), None)
    if resource is None:
        known = ", ".join(sorted({r.plural for r in resources.RESOURCES}))
        raise Failure(f"{plural} is not known; give a path that begins with \"/\", or one of {known}")
    return resources.collection_path(resource, namespace if name else None) + (f"/{urllib.parse.quote(name)}" if name else "")


def get(arguments):
    for path in arguments.words:
        print(json.dumps(Control(arguments.dir).demand("GET", expand(path, arguments.namespace)), indent=2))


def delete(arguments):
    for path in arguments.words:
        Control(arguments.dir).demand("DELETE", expand(path, arguments.namespace))


def fault(arguments):
    control = Control(arguments.dir)
    if not arguments.words:
        for found in control.demand("GET", "/devplug/faults")["faults"]:
            print(json.dumps(found))
    elif arguments.words == ["none"]:
        control.demand("PUT", "/devplug/faults", {"faults": []})
    else:
        members = {"do": arguments.words[0], "method": arguments.method, "path": arguments.path, "times": arguments.times,
                   "retry_after": arguments.retry_after}
        control.demand("POST", "/devplug/faults", {name: value for name, value in members.items() if value is not None})


def requests(arguments):
    for found in Control(arguments.dir).demand("GET", "/devplug/requests")["requests"]:
        print(found["code"] or "-", found["method"], found["path"])


def wait(arguments):
    control, driver = Control(arguments.dir), arguments.words[0]
    path = "/devplug/pools?driver=" + urllib.parse.quote(driver)
    end = time.monotonic() + arguments.timeout
    while not (pools := control.demand("GET", path)["pools"]) or not all(pool["complete"] for pool in pools):
        if time.monotonic() >= end:
            raise Failure(f"within {arguments.timeout:g} s, {driver} has not published a complete pool: "
                          + ("; ".join(pool["fault"] for pool in pools if not pool["complete"]) or "there is no ResourceSlice"))
        time.sleep(0.1)


# --- the command line

HELP = f"""{PROGRAM} COMMAND [OPTION...]

An API server of Kubernetes for tests of DRA drivers, with the allocation of claims.

  run                     serve in the foreground
  apply FILE...           create or change the objects of files of JSON; "-": standard input;
                          prints the devices of ResourceClaims
  get PATH...             print objects: resourceslices, resourceclaims/NAME, or a path of the
                          API
  delete PATH...          delete objects
  wait DRIVER             wait until the driver has published complete pools
  fault [DO]              print the faults, or add one: a status code, hang, close, garbage,
                          empty, or delay:SECONDS; "none" ends all
  requests                print the last requests with the status codes of their answers

  --dir DIR               folder of certificates, kubeconfigs and the control socket, default
                          {FOLDER}
  --as VERSION            the release of Kubernetes to imitate: {", ".join(RELEASES[:-1]).replace(DEFAULT, DEFAULT + " (default)")} or
                          {RELEASES[-1]}
  --feature-gates NAME=true|false,...
                          switch a feature on or off, in place of the release's default
  --node NAME             a Node, may be repeated, default "node-a"
  --address ADDRESS       the address to listen on, default 127.0.0.1
  --port PORT             the port, default 0: any that is free
  --namespace NAME        of objects without one, default "default"
  --method METHOD         the fault applies to requests with this method; default: all
  --path REGEX            and to those whose path matches
  --times N               and to N of them
  --retry-after SECONDS   sent with the status code 429, default 1
  --timeout SECONDS       time limit of wait, default 30
  --help, --version
"""

# Function, number of words: at least, at most.
COMMANDS = {"run": (run, 0, 0), "apply": (apply, 1, None), "get": (get, 1, None), "delete": (delete, 1, None),
            "wait": (wait, 1, 1), "fault": (fault, 0, 1), "requests": (requests, 0, 0)}


def refuse_usage(text):
    print(f"{PROGRAM}: {text}; see {PROGRAM} --help", file=sys.stderr)
    sys.exit(EXIT_USAGE)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        refuse_usage(message)


def make_parser():
    parser = Parser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--dir", default=FOLDER)
    parser.add_argument("--as", dest="release", choices=RELEASES, default=DEFAULT)
    parser.add_argument("--feature-gates", action="append", default=[])
    parser.add_argument("--node", action="append")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--method")
    parser.add_argument("--path")
    parser.add_argument("--times", type=int)
    parser.add_argument("--retry-after", type=int)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    return parser


def main(version):
    arguments = make_parser().parse_intermixed_args()
    if arguments.help or arguments.version:
        print(HELP if arguments.help else f"{PROGRAM} {version}", end="" if arguments.help else "\n")
        return 0
    name = arguments.words.pop(0) if arguments.words else None
    if name not in COMMANDS:
        refuse_usage(f"{name} is not a command" if name else "a command is missing")
    function, least, most = COMMANDS[name]
    if len(arguments.words) < least or (most is not None and len(arguments.words) > most):
        refuse_usage(f"wrong number of words after {name}")
    try:
        function(arguments)
    except Usage as error:
        refuse_usage(error)
    except (Failure, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    return 0
