"""Run by torchrun, or alone: trains the configs of a YAML file one after another into one folder."""

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import yaml

from lexlip.config import Config
from lexlip.config_files import from_dict
from lexlip.training import distributed
from lexlip.training.loop import pretrain


def phases_of(tree: dict[str, Any] | list[dict[str, Any]], run: str) -> list[Config]:
    """The config of a run, or those of its phases: RUN/0, from whose best RUN/1 starts, and so on."""
    if isinstance(tree, dict):
        return [from_dict(Config, {**tree, "out": run})]
    before = [None, *(f"{run}/{number}/best" for number in range(len(tree)))]
    return [
        from_dict(Config, {**keys, "out": f"{run}/{number}", "init": before[number]})
        for number, keys in enumerate(tree)
    ]


def main(configs: str, out: str) -> None:
    torch.set_num_threads(1)
    distributed.BUCKET_AHEAD = 2000  # numbers: several buckets of such a small model
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    for name, tree in yaml.safe_load(Path(configs).read_text()).items():
        pretrain(phases_of(tree, f"{out}/{name}"))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
