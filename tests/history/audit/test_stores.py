"""Files in stores: a real S3 API and a web server, both on loopback, both failing now and then."""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread

import pytest

from spillscan import InputError, scan
from spillscan.cli import main
from spillscan.history.audit.stores import PAUSES_SECONDS, listed, retried
from tests.conftest import FIXTURES, kernel_to_json
from tests.history.audit.conftest import Reference
from tests.history.audit.support import kept, run

pytestmark = pytest.mark.skipif(find_spec("s3fs") is None, reason="s3fs is not installed")


class Flaky(BaseHTTPRequestHandler):
    """Hands requests on to another server; every n-th fails, by an error or by a body that is cut off."""

    protocol_version = "HTTP/1.1"
    server: FlakyServer

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "GET" and "?" not in self.path:
            self.server.asked.append(self.path)
        fault = self.server.fault(self.path)
        if fault == "error":
            self.send_error(503)
            return
        other = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        other.request(self.command, self.path, body, dict(self.headers))
        answer = other.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        size = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)
        if fault == "cut":
            self.close_connection = True
        other.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815 - names that the library asks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class FlakyServer(ThreadingHTTPServer):
    """Proxy for the server at port ``behind`` that fails at times."""

    daemon_threads = True

    def __init__(self, behind: int, every: int) -> None:
        super().__init__(("127.0.0.1", 0), Flaky)
        self.behind = behind
        self.every = every
        self.failed = 0
        self.lost = ""
        """Suffix of a path that is never delivered."""
        self.asked: list[str] = []
        """Objects whose bytes somebody wanted."""
        self._requests = itertools.count(1)
        self._lock = Lock()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client may have been killed."""

    def fault(self, path: str) -> str:
        with self._lock:
            number = next(self._requests)
            if self.lost and path.endswith(self.lost):
                return "error"
            if number % self.every:
                return ""
            self.failed += 1
            return "cut" if self.failed % 2 else "error"


@contextmanager
def flaky(behind: int, every: int) -> Iterator[FlakyServer]:
    server = FlakyServer(behind, every)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def object_store(every: int) -> Iterator[FlakyServer]:
    """S3 API for this process and its children, of which one call in ``every`` fails."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    with flaky(port, every) as front, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{front.server_port}",
            "NO_PROXY": "127.0.0.1",
        }.items():
            patch.setenv(name, value)
        # Who waits before it asks again is not what is tested: the server fails by number, not by time.
        patch.setattr("botocore.retryhandler.delay_exponential", lambda *_, **__: 0.01)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        yield front
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def s3() -> Iterator[FlakyServer]:
    with object_store(9) as front:
        yield front


@pytest.mark.oracle
def test_inputs_and_dataset_in_a_flaky_object_store(s3: FlakyServer, reference: Reference, tmp_path: Path) -> None:
    import s3fs

    store = s3fs.S3FileSystem()
    retried(partial(store.mkdir, "nightly"))
    some = tmp_path / "some"
    (some / "1").mkdir(parents=True)
    for path in sorted((reference.tree / "part0" / "1").iterdir())[::8]:  # each costs a dozen requests
        shutil.copy(path, some / "1")
        retried(partial(store.pipe_file, f"nightly/tree/1/{path.name}", path.read_bytes()))
    here = run(some / "1", tmp_path / "data")
    before = s3.failed
    summary = run("s3://nightly/tree", "s3://nightly/data")
    assert s3.failed - before > 3, "it was flaky, indeed"
    assert summary.text() == here.text()
    (build, units), (expected, expected_units) = kept("s3://nightly/data"), kept(tmp_path / "data")
    here_named = json.dumps([kernel_to_json(kernel) for kernel in expected.kernels])
    there_named = here_named.replace(str(some), "s3://nightly/tree")
    assert [kernel_to_json(kernel) for kernel in build.kernels] == json.loads(there_named)
    assert [unit[1:3] for unit in units] == [unit[1:3] for unit in expected_units]
    assert units[0][0].startswith("s3://nightly/tree/1/")
    read_once = {uri.rpartition("/")[2] for uri, _, _, failure in units if not failure}

    name = sorted(read_once)[0]
    data = bytearray(retried(partial(store.cat_file, f"nightly/tree/1/{name}")))
    data[-2:] = b"\n\n"  # as long as before
    retried(partial(store.pipe_file, f"nightly/tree/1/{name}", bytes(data)))
    s3.asked.clear()
    files = run("s3://nightly/tree/*/*", "s3://nightly/data").files
    assert (files["read"], files["present"]) == (1, here.files["read"] - 1)
    asked = {path.rpartition("/")[2] for path in s3.asked if path.startswith("/nightly/tree/")}
    assert asked & read_once == {name}, "of the others the store says that they have not changed"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[FlakyServer, Path]]:
    from http.server import SimpleHTTPRequestHandler

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    folder = tmp_path / "web"
    folder.mkdir()
    behind = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    behind.daemon_threads = True
    Thread(target=behind.serve_forever, daemon=True).start()
    with flaky(behind.server_port, 5) as front:
        yield front, folder
    behind.shutdown()
    behind.server_close()


@pytest.mark.oracle
def test_a_file_that_never_comes_has_failed_until_it_comes(web: tuple[FlakyServer, Path], tmp_path: Path) -> None:
    server, folder = web
    shutil.copyfile(FIXTURES / "demo" / "base.log", folder / "base.log")
    shutil.copyfile(FIXTURES / "demo" / "head.log", folder / "head.log")
    server.lost = "/base.log"
    address = f"http://127.0.0.1:{server.server_port}"
    summary = run(f"{address}/*.log", tmp_path / "data")
    assert summary.files == {"read": 1, "failed": 1}
    (failed,) = summary.failed
    assert failed.uri == f"{address}/base.log"
    assert failed.reason == f"cannot fetch {address}/base.log: it was not found in the store; check the URL, then retry"
    server.lost = ""
    assert run(f"{address}/*.log", tmp_path / "data").files == {"read": 1, "present": 1}
    build, units = kept(tmp_path / "data")
    assert [unit[3] for unit in units] == ["", ""]
    expected = [scan(str(folder / name)).kernels for name in ("base.log", "head.log")]
    assert [kernel.usage for kernel in build.kernels] == [each.usage for some in expected for each in some]


@pytest.mark.parametrize("keys", [{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}, {}])
@pytest.mark.parametrize(
    "command",
    ["history audit s3://gone/logs --dataset data", "history audit a.log --dataset s3://gone/data", "history verify"],
)
def test_a_store_without_keys_or_without_an_answer_is_one_line(
    keys: dict[str, str],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import s3fs

    monkeypatch.setattr("spillscan.history.audit.stores.PAUSES_SECONDS", (0.0,))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_bytes((FIXTURES / "demo" / "base.log").read_bytes())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "none",
        "AWS_SHARED_CREDENTIALS_FILE": "none",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        **keys,
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    words = (
        ["history", "verify", "--dataset", "s3://gone/data"]
        if command == "history verify"
        else [*command.split(), "--label", "v"]
    )
    try:
        assert main(words) == 2
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert re.match("spillscan: cannot (list s3://gone/logs|(read|write) s3://gone/data): ", line)
    assert ("Could not connect" if keys else "Unable to locate credentials") in line
    assert line.endswith("; check the store's address and credentials")


def test_a_server_that_refuses_the_connection_is_not_a_missing_file() -> None:
    with pytest.raises(InputError, match=r"^cannot list http://127\.0\.0\.1:1/a\.log: Cannot connect"):
        listed("http://127.0.0.1:1/a.log")


# ---- retries ------------------------------------------------------------------------------------------------------


def failing(times: int, error: Exception) -> Callable[[], int]:
    attempts = itertools.count()

    def action() -> int:
        number = next(attempts)
        if number < times:
            raise error
        return number

    return action


def test_attempts_are_bounded_and_each_waits_longer() -> None:
    pauses: list[float] = []
    assert retried(failing(4, OSError("slow down")), pause=pauses.append) == 4
    assert pauses == list(PAUSES_SECONDS) == sorted(pauses)
    with pytest.raises(OSError, match="slow down"):
        retried(failing(5, OSError("slow down")), pause=pauses.append)


@pytest.mark.parametrize("error", [ImportError("no"), PermissionError(13, "no")])
def test_lasting_errors_are_not_retried(error: Exception) -> None:
    with pytest.raises(type(error)):
        retried(failing(1, error), pause=lambda _: pytest.fail("waited"))
