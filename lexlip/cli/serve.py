"""The command `lexlip serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible

_SECONDS = options.Number(min=0, min_open=True)
NOT_OF_SERVERS = ("index_folder", "watch", "captions", "address", "replicas", "copy")
"""What needs an index on this machine."""


@click.command()
@options.index_option
@click.option(
    "--server",
    metavar="ADDRESS",
    help="Serve an index that `lexlip index --server` has made: opensearch+https://HOST/INDEX, or"
    " solr+https://HOST/solr/COLLECTION. Secrets:"
    " LEXLIP_SERVER_KEY, or LEXLIP_SERVER_USER and LEXLIP_SERVER_PASSWORD, in the environment.",
)
@click.option("--host", default="127.0.0.1", help="Address to listen at.")
@click.option("--port", type=options.Integer(0, 65535), default=8642, help="Port; 0 is any free one.")
@click.option(
    "--token",
    envvar="LEXLIP_TOKEN",
    help="A secret that callers must show; needed if other machines reach the server. Better given as"
    " LEXLIP_TOKEN, in the environment.",
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A further name of this server; may be repeated."
)
@click.option("--watch", is_flag=True, help="Update the index when photos change.")
@click.option(
    "--captions",
    is_flag=True,
    help="Also search the captions and keywords that the index has, as search does.",
)
@click.option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Search the index's shards on a Ray cluster: local is this machine, auto the cluster that it belongs"
    " to, HOST:PORT another one's head.",
)
@options.count_option(
    "--replicas",
    default=1,
    help="With --ray: copies of each shard, on as many machines as there are; each takes a processor.",
)
@click.option(
    "--copy",
    is_flag=True,
    help="With --ray: copy shards to the machines' own disks, for machines that do not see the index.",
)
@options.model_option(None, "Model that encodes queries.  [default: the one that made the index]")
@options.device_option
@click.option(
    "--photos",
    "photo_folders",
    multiple=True,
    metavar="FOLDER|ADDRESS",
    help="Also send photos of the index from this folder, though another user or an older version made the"
    " index; may be repeated. With --server the folder in which they are, or where they are shown:"
    " https://photos.example.org/{id}",
)
@options.count_option("--max-k", default=1000, help="Most hits of one answer.")
@options.count_option("--max-query", default=1000, help="Most characters of a query.")
@click.option(
    "--max-upload",
    type=_SECONDS,
    default=30.0,
    metavar="MB",
    help="Largest file of a picture.",
)
@options.count_option("--max-pixels", default=100_000_000, help="Most pixels of a picture.")
@click.option(
    "--max-seconds",
    type=_SECONDS,
    default=30.0,
    metavar="SECONDS",
    help="Longest time for a picture to arrive, and for one to be encoded.",
)
@options.count_option(
    "--max-requests",
    default=64,
    help="Most searches at once; more are refused.",
)
@options.count_option("--max-photos", default=5000, help="Most photos of one download.")
@click.option(
    "--max-download",
    type=_SECONDS,
    default=20_000.0,
    metavar="MB",
    help="Most of all files of one download.",
)
@click.option(
    "--rate",
    type=options.Number(min=0),
    default=0.0,
    help="Most requests in a second by one client; 0 is unlimited.",
)
@click.option(
    "--thumbnails",
    type=_SECONDS,
    default=1000.0,
    metavar="MB",
    help="Most space for thumbnails beside the index.",
)
@click.option(
    "--idle",
    type=_SECONDS,
    default=300.0,
    metavar="SECONDS",
    help="Time without pictures after which the process ends that holds the model for them.",
)
@click.pass_context
def serve(
    context: click.Context,
    index_folder: str,
    server: str | None,
    host: str,
    port: int,
    token: str | None,
    allow_host: tuple[str, ...],
    address: str | None,
    replicas: int,
    copy: bool,
    photo_folders: tuple[str, ...],
    rate: float,
    max_upload: float,
    max_download: float,
    thumbnails: float,
    **how: Any,
) -> None:
    """Search an index in the browser: a page, and its API under /api.

    Only this machine reaches it unless --host says otherwise; then callers need a --token. /docs describes
    the API. An index of words is updated while it is served, on request or with --watch.
    """
    from lexlip.machine.progress import tell
    from lexlip.retrieval.seal import folders_to_send
    from lexlip.server.access import Access, Limits
    from lexlip.server.photo_addresses import where_photos_are
    from lexlip.server.running import OnCluster, serve_index, serve_server

    if address is None:
        options.refuse(context, ["replicas", "copy"], "is for --ray")
    if server is not None:
        options.refuse_with_server(context, NOT_OF_SERVERS, "an index on this machine")
    elif any("://" in name for name in photo_folders):
        raise click.UsageError("--photos is an address, which is for --server: give a folder")

    limits = Limits(
        k=how.pop("max_k"),
        query=how.pop("max_query"),
        upload_bytes=round(max_upload * 1e6),
        upload_pixels=how.pop("max_pixels"),
        seconds=how.pop("max_seconds"),
        requests=how.pop("max_requests"),
        download_photos=how.pop("max_photos"),
        download_bytes=round(max_download * 1e6),
        rate=rate,
        thumbnail_bytes=round(thumbnails * 1e6),
        idle=how.pop("idle"),
    )
    access = Access(host, token or None, allow_host, rate)
    with interruptible("the server has ended"):
        if server is not None:
            model, device = how["model"] or options.DEFAULT_MODEL, how["device"]
            place = where_photos_are(photo_folders)
            serve_server(server, host, port, access, limits, model, device, *place, say=click.echo, tell=tell)
            return
        how["cluster"] = None if address is None else OnCluster(address, replicas, copy)
        how["folders"] = folders_to_send(photo_folders)
        serve_index(Path(index_folder), host, port, access, limits, say=click.echo, **how)
