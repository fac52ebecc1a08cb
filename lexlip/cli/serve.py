"""The command `lexlip serve`."""

from __future__ import annotations

import click

from lexlip.cli import options


@click.command()
@options.index_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="Port to listen at."
)
@options.model_option(None, "Model that encodes the query.  [default: the one that made the index]")
@options.device_option
def serve(index_folder: str, host: str, port: int, model: str | None, device: str) -> None:
    """Search an index in the browser: a page, and its API under /api."""
    import uvicorn

    from lexlip.server.application import make_application
    from lexlip.server.served_index import ServedIndex

    served = ServedIndex(index_folder, model, device)
    uvicorn.run(make_application(served), host=host, port=port, log_level="warning")
