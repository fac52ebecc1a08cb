"""Runs the server until it is told to end."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from anserini_bridge import find_jar, find_java, needs_java, read_header, start_jvm
from anserini_bridge.jvm import SMALL_GARBAGE
from lexlip.errors import ConfigError
from lexlip.registry import WITH_WORDS
from lexlip.retrieval.seal import why_not_sent
from lexlip.search.engines.shard import read_sharded
from lexlip.server.access import STATES, SUGGESTED, Access, Limits
from lexlip.sparse import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.search.photo_search import PhotoSearch
    from lexlip.search_servers.server_search import ServerSearch
    from lexlip.server.photo_addresses import PhotoAddresses
    from lexlip.server.served_index import ServedIndex


class OnCluster(NamedTuple):
    """How the shards of an index are searched on a Ray cluster: see `connected`, and `ReplicaGroups`."""

    address: str
    replicas: int
    copy: bool


def serve_index(
    index: Path,
    host: str,
    port: int,
    access: Access,
    limits: Limits,
    model: str | None = None,
    device: str = "auto",
    watch: bool = False,
    captions: bool = False,
    cluster: OnCluster | None = None,
    folders: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> None:
    """Serve an index until SIGTERM or Ctrl-C, which raises KeyboardInterrupt after all has ended.

    Args:
        index, model, device, captions: see `PhotoSearch`.
        port: 0 is any that is free.
        watch: update the index when photos change.
        cluster: where the index's shards are searched; None: in this process.
        folders: see `ServedIndex`.
        say: is told the address, once the server answers.
    """
    header = read_header(index)
    if watch and header.kind not in WITH_WORDS:
        raise ConfigError(
            f"--watch is for an index of words, and {index} was made with {header.encoder}: leave it out"
        )
    if needs_java(index, header) or captions or watch:
        find_java(), find_jar()  # fail before the work
    if cluster is not None and header.kind != "sharded":
        raise ConfigError(f"--ray searches shards, and {index} has none: make it with `lexlip index --ray`")
    with listen(host, port) as listening, _opened(index, model, device, captions, cluster) as search:
        from lexlip.server.served_index import ServedIndex

        served = ServedIndex(index, model, device, limits, search, folders)
        if why := why_not_sent(index, read_header(index), folders):
            print(why, file=sys.stderr, flush=True)
        _run(served, access, watch, host, listening, say)


def serve_server(
    address: str,
    host: str,
    port: int,
    access: Access,
    limits: Limits,
    model: str,
    device: str = "auto",
    folders: Sequence[str] = (),
    addresses: PhotoAddresses | None = None,
    say: Callable[[str], None] = print,
    tell: Callable[[str], object] | None = None,
) -> None:
    """Do the same for an index on a server.

    Args:
        address: as in `lexlip search --server`.
        model: name or folder of the one that made the index.
        folders: in which the photos are.
        addresses: where another server shows them.
        tell: see `PhotoIndex`; before this server answers.
    """
    started = Event()

    def tell_at_start(line: str) -> None:
        if tell is not None and not started.is_set():
            tell(line)

    where = address, model, device, folders
    with listen(host, port) as listening, open_server_search(*where, tell_at_start) as search:
        from lexlip.server.served_server import ServedServer

        served = ServedServer(search, model, device, limits, folders, addresses)
        started.set()
        _run(served, access, False, host, listening, say, "" if addresses is None else addresses.origin)


def _run(
    served: ServedIndex,
    access: Access,
    watch: bool,
    host: str,
    listening: socket.socket,
    say: Callable[[str], None],
    pictures_from: str = "",
) -> None:
    """Serve an open index."""
    from lexlip.server.application import make_application
    from lexlip.server.connections import make_server

    photos = served.status()["documents"]
    server = make_server(make_application(served, access, watch, pictures_from))

    def end(*_: object) -> None:  # before uvicorn listens to signals; and after, when it sends this one again
        server.should_exit = True

    signal.signal(signal.SIGTERM, end)
    name = f"[{host}]" if ":" in host else host
    say(f"{photos:,} photo{'s' * (photos != 1)} at http://{name}:{listening.getsockname()[1]}/ (Ctrl-C ends)")
    server.run(sockets=[listening])


@contextmanager
def _opened(
    index: Path, model: str | None, device: str, captions: bool, cluster: OnCluster | None
) -> Iterator[PhotoSearch]:
    """Give an open search in an index, and import FastAPI."""
    if cluster is not None:
        from lexlip.cluster.session import connected

        with connected(cluster.address, len(read_sharded(index).shards) * cluster.replicas + 1):
            yield open_cluster_search(index, model, device, cluster, captions)
        return
    with ThreadPoolExecutor(1) as opener:  # both take as long
        opening = opener.submit(open_search, index, model, device, captions)
        import lexlip.server.application  # noqa: F401
    yield opening.result()


def open_search(index: Path, model: str | None, device: str, captions: bool) -> PhotoSearch:
    """Open an index, and search once, so that the first caller does not wait for what is loaded on demand."""
    from lexlip.search.photo_search import PhotoSearch

    if needs_java(index, read_header(index)) or captions:
        start_jvm(SMALL_GARBAGE)
    search = PhotoSearch(index, model, device=device, keep_states=STATES, captions=captions)
    search.text("a photo", 50, suggest=SUGGESTED)
    return search


def open_server_search(
    address: str,
    model: str,
    device: str,
    folders: Sequence[str],
    tell: Callable[[str], object] | None = None,
) -> ServerSearch:
    """Open an index on a server, and search once; its older states are gone, and so are their cursors."""
    from lexlip.other_engines.ask import NoIndex
    from lexlip.search_servers.server_search import ServerSearch

    try:
        search = ServerSearch(address, model, "network", SENTENCE_TOPK, device, folders=folders, tell=tell)
    except NoIndex:
        raise ConfigError(
            f"there is no index {address}: make it with `lexlip index SOURCE --server {address}`"
        ) from None
    search.text("a photo", 50, suggest=SUGGESTED)
    return search


def open_cluster_search(
    index: Path, model: str | None, device: str, cluster: OnCluster, captions: bool
) -> PhotoSearch:
    """Start the replicas of an index's shards, and search once; captions are searched in this process."""
    from lexlip.cluster.replicas import ReplicaGroups
    from lexlip.search.hybrid import HybridStage
    from lexlip.search.photo_search import PhotoSearch
    from lexlip.search.stages.bm25 import CaptionsStage
    from lexlip.search.stages.impact import ShardedStage

    shards = ReplicaGroups(index, read_sharded(index), cluster.replicas, cluster.copy)
    try:
        stage: Any = ShardedStage(index, model, device=device, shards=shards)
        if captions:
            start_jvm(SMALL_GARBAGE)
            stage = HybridStage(stage, CaptionsStage(index))
        search = PhotoSearch.of(stage, keep_states=1)  # as many as the index's folder still has
        search.text("a photo", 50, suggest=SUGGESTED)
    except BaseException:
        shards.close()
        raise
    return search


def listen(host: str, port: int) -> socket.socket:
    """Return a socket at an address; callers wait in its queue until the server is ready.

    At "::" it takes callers of IPv4, too, where the system has such sockets.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=both)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else answers wait for 40 ms
        return listening
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(
            f"cannot listen at {host}, port {port} ({why}): give another --host or --port"
        ) from error
