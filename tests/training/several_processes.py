"""Run by torchrun, or alone: trains the configs of a YAML file one after another into one folder."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import yaml

from lexlip.config import Config
from lexlip.config_files import from_dict
from lexlip.training import distributed
from lexlip.training.loop import pretrain


def main(configs: str, out: str) -> None:
    torch.set_num_threads(1)
    distributed.BUCKET_AHEAD = 2000  # numbers: several buckets of such a small model
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    for name, tree in yaml.safe_load(Path(configs).read_text()).items():
        pretrain(from_dict(Config, {**tree, "out": f"{out}/{name}"}))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
