"""Processes that fork from one that has loaded torch and the models, which takes seconds, once."""

import multiprocessing
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import BaseContext


@cache
def forks() -> BaseContext:
    """Start the server of forks, in this process and before anything else does."""
    multiprocessing.set_forkserver_preload(["lexlip.models.lexlip", "lexlip.models.dense"])
    forkserver.ensure_running()
    return multiprocessing.get_context("forkserver")
