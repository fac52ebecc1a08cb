"""What a run would do, and what it lacks: worked out without its photos, weights or a GPU.

Models are built without memory for their weights (torch's meta device), so base-size models take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer, BertConfig, PreTrainedTokenizerBase

from lexlip.config import Config, RegionsConfig, SourceConfig
from lexlip.data import Source, open_sources
from lexlip.encoders.hub_access import is_cached
from lexlip.encoders.text import random_options, word_tokenizer
from lexlip.errors import ConfigError, LexLIPError, ModelError
from lexlip.machine.device import pick_device
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import check_first_stage
from lexlip.models.model_folder import model_folder
from lexlip.registry import MODELS, load_class
from lexlip.training.initialisation import add_words, check_agreement, continued_model, counted_captions
from lexlip.training.loading import Order
from lexlip.training.log import check_log
from lexlip.training.method import Method
from lexlip.training.run_folder import check_run, phase_to_begin_with
from lexlip.words.vocabulary import Vocabulary

AHEAD = 2  # batches that each worker process prepares
ENTRIES = 10_000  # of a tokenizer of whole words, before there are captions to learn it from
BYTES = 4  # of a weight, a gradient, and each of the optimizer's two moments
HALF = 0.5  # of activations in bf16 or fp16, relative to fp32


@dataclass
class RunPlan:
    config: Config
    processes: int
    rows: int | None = None  # photos or pairs of an epoch; None if neither photos nor `data.expected` tell
    steps: int | None = None  # of the whole run; None if unknown, or planned by the clock
    missing: list[str] = field(default_factory=list)  # what keeps the run from starting, a sentence each
    model: dict[str, int] = field(default_factory=dict)  # how many parameters it has, by part
    memory: dict[str, float] = field(default_factory=dict)  # bytes of a process on its device, by what for
    shared_memory: float = 0  # bytes of batches that all workers of a process hold

    def lines(self) -> Iterator[str]:
        config, optim = self.config, self.config.optim
        unit = config.data.epoch.removesuffix("s")
        per_process = optim.batch // self.processes
        if config.phase is not None:
            yield f"phase      {config.phase}"
        yield f"run        {config.folder}, {config.model.kind}, seed {config.seed}"
        if self.rows is not None:
            yield f"epoch      {_many(self.rows, unit)}, {_many(self.rows // optim.batch, 'step')}"
        if optim.minutes is not None:
            yield f"minutes    {optim.minutes:g}, with validations and checkpoints"
            yield f"rate       up to {optim.lr:g} over {optim.warmup:.0%} of them, then linearly down to 0"
            yield f"validation every {_many(config.validate_every, 'step')}, and at the end"
        elif self.steps is None:
            yield "steps      unknown: the photos are not here, and data.expected does not tell their number"
        else:
            epochs = f", {self.steps * optim.batch / self.rows:.1f} epochs" if self.rows else ""
            yield f"steps      {self.steps:,} of {_many(optim.batch, unit)}{epochs}"
            warmup = max(1, round(optim.warmup * self.steps))
            yield f"rate       up to {optim.lr:g} over {_many(warmup, 'step')}, then linearly down to 0"
            count = -(-self.steps // config.validate_every)
            yield f"validation every {_many(config.validate_every, 'step')}, {count:,} in all"
        micro = min(optim.micro_batch or per_process, per_process)
        regions = config.model.image.regions
        photo = f"{', '.join(map(str, config.sizes))} pixels"
        if regions is not None:
            photo = f"up to {regions.most} regions of {regions.features} features"
        each = f" in each of {self.processes} processes" * (self.processes > 1)
        yield f"batch      {per_process:,}{each}, {micro:,} at a time; {photo}"
        if self.model:
            parameters = ", ".join(f"{name} {number / 1e6:.1f}M" for name, number in self.model.items())
            yield f"parameters {parameters}"
            total = sum(self.memory.values())
            parts = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in self.memory.items())
            yield f"memory     about {total / 1e9:.1f} GB a process: {parts}"
        if self.shared_memory:
            yield f"           {self.shared_memory / 1e9:.1f} GB of shared memory a process, for its workers"

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "steps": self.steps,
            "minutes": self.config.optim.minutes,
            "parameters": self.model,
            "memory_bytes": {name: round(size) for name, size in self.memory.items()},
            "shared_memory_bytes": round(self.shared_memory),
            "missing": self.missing,
        }


def plan_phases(phases: Sequence[Config], processes: int = 1, resume: bool = False) -> list[RunPlan]:
    """Work out what the phases of a config would do that are still to be trained; see `plan`.

    A phase that starts from one before it is planned with the model that the first of them starts from.
    """
    try:
        first = phase_to_begin_with(phases, resume)
    except ConfigError:  # one of them holds a run, or another config's: its own plan says so
        first = 0
    start = _start(phases[first], resume)
    plans = [_plan(phases[first], processes, resume, start)]
    for before, config in pairwise(phases[first:]):
        plans.append(_plan(config, processes, False, start))
        try:
            check_agreement(str(config.init), config.model, before.model)
        except ConfigError as error:
            plans[-1].missing.append(str(error))
    return plans


def plan(config: Config, processes: int = 1, resume: bool = False) -> RunPlan:
    """Work out what a run would do with so many processes, and all that it lacks."""
    return _plan(config, processes, resume, _start(config, resume))


def _start(config: Config, resume: bool) -> str | None:
    """Return the model that a run starts from, or goes on from."""
    last = config.folder / "last"
    return str(last) if resume and last.exists() else config.init


def _plan(config: Config, processes: int, resume: bool, start: str | None) -> RunPlan:
    found = RunPlan(config, processes)
    try:
        check_log(config)
        check_run(config, resume)
        pick_device(config.device)
    except LexLIPError as error:
        found.missing.append(str(error))
    if config.optim.batch < processes:
        found.missing.append(f"optim.batch={config.optim.batch} is fewer than {processes} processes")
    regions = config.model.image.regions
    train = _open("data.train", config.data.train, found.missing, regions)
    _open("data.val", config.data.val, found.missing, regions)
    if config.data.others:
        _open("data.others", config.data.others, found.missing, regions)
    if train is None:
        found.rows = config.data.expected
    else:
        found.rows = len(Order(train, config).rows)
        if found.rows < config.optim.batch:
            few = f"{found.rows} {config.data.epoch} are fewer than optim.batch={config.optim.batch}"
            found.missing.append(f"data.train: {few}")
    found.steps = config.optim.run_steps(found.rows)
    made = _make_model(config, start, train, found.missing)
    if made is not None:
        found.model = _parameters(made)
        found.memory = estimate_memory(made, config, processes)
    photos = config.optim.batch / processes
    pixels = 3 * max(config.sizes) ** 2
    size = pixels if regions is None else BYTES * regions.most * regions.numbers
    found.shared_memory = config.data.workers * AHEAD * photos * size
    return found


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


# ---- what is there ----


def _open(
    key: str, sources: Sequence[SourceConfig], missing: list[str], regions: RegionsConfig | None
) -> Source | None:
    """Return the photos of a key; None, and all that is missing, if they are not all here."""
    before = len(missing)
    for source in sources:
        try:
            open_sources([source], regions)
        except LexLIPError as error:
            missing.append(f"{key}: {error}")
    if len(missing) > before:
        return None
    opened = open_sources(sources)
    if not len(opened.captioned()):
        missing.append(f"{key}: {opened.name} has no captions")
        return None
    return opened


def _check_weights(config: Config, missing: list[str]) -> None:
    """Note which pre-trained weights are not on this machine."""
    image, text = config.model.image, config.model.text
    if image.weights == "pretrained":
        known = timm.get_pretrained_cfg(image.name)
        hub = getattr(known, "hf_hub_id", None)
        if hub and not is_cached(hub, "model.safetensors", "pytorch_model.bin"):
            missing.append(f"model.image.weights: {_fetch(hub)}")
    elif image.weights is not None and not Path(image.weights).exists():
        missing.append(f"model.image.weights: {image.weights} does not exist")
    is_folder = text.name is None or Path(text.name).is_dir()
    if not (is_folder or is_cached(str(text.name), "model.safetensors", "pytorch_model.bin")):
        missing.append(f"model.text.name: {_fetch(str(text.name))}")


def _fetch(repository: str) -> str:
    return f"{repository} is not on this machine; fetch it with: hf download {repository}"


# ---- the model ----


def _make_model(config: Config, start: str | None, train: Source | None, missing: list[str]) -> Method | None:
    """Return the method without memory for its weights; None if the model cannot be made."""
    before = len(missing)
    if start is None:
        _check_weights(config, missing)
    of_phase_before = config.teacher == config.init != start  # it is trained first
    if config.teacher is not None and not of_phase_before:
        try:
            check_first_stage(config.teacher)
        except LexLIPError as error:
            missing.append(f"teacher: {error}")
    try:
        model, vocabulary = _started(start, config, train, missing) if start else (None, None)
        if model is None:
            model, vocabulary = _new(config, train)
        if config.optim.checkpoint_activations:
            model.checkpoint_activations()
        if vocabulary is None:
            vocabulary = Vocabulary.build(config.model.vocabulary, model.tokenizer, [])
        with torch.device("meta"):
            return Method(model.to("meta"), vocabulary, config.objective)
    except LexLIPError as error:
        if len(missing) == before:  # else that is why
            missing.append(str(error))
        return None


def _started(
    start: str, config: Config, train: Source | None, missing: list[str]
) -> tuple[DualEncoder | None, Vocabulary | None]:
    """Return the model of `start`, with its new words; None, which is then missing, if it does not exist."""
    try:
        folder = model_folder(start)
    except ModelError as error:
        missing.append(f"init: {error}")
        return None, None
    model = continued_model(str(folder), config.model)
    if config.new_words and train is not None:
        assert isinstance(model, LexLIP)
        add_words(model, counted_captions(train, config.seed), config.new_words)
    return model, model.vocabulary


def _new(config: Config, train: Source | None) -> tuple[DualEncoder, Vocabulary]:
    """Return a new model without weights; a tokenizer that is not here is replaced by one of its size."""
    architecture = _architecture(config)
    photos = [] if train is None else counted_captions(train, config.seed)
    captions = [caption for texts in photos for caption in texts]
    vocabulary_config = config.model.vocabulary
    tokenizer = _tokenizer(config, captions, int(architecture.get("vocab_size", ENTRIES)))
    if not captions and vocabulary_config.kind == "words":
        vocabulary_config = replace(vocabulary_config, kind="pieces")
    architecture.setdefault("vocab_size", len(tokenizer))
    vocabulary = Vocabulary.build(vocabulary_config, tokenizer, captions)
    model_config = replace(config.model, image=replace(config.model.image, weights=None))
    with torch.device("meta"):
        cls = load_class(MODELS[config.model.kind].implementation)
        model: DualEncoder = cls(model_config, tokenizer, vocabulary, architecture)
    return model, vocabulary


def _architecture(config: Config) -> dict[str, Any]:
    """Return the transformers config of the text encoder; ConfigError if it is neither here nor known."""
    text = config.model.text
    if text.name is None:
        return {"model_type": "bert", **random_options(text)}
    try:
        known = AutoConfig.from_pretrained(text.name, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers and the hub raise many kinds
        if text.name != "bert-base-uncased":
            raise ConfigError(
                f"model.text.name: the architecture of {text.name} is not on this machine"
            ) from error
        known = BertConfig()
    architecture: dict[str, Any] = {**known.to_dict(), **text.options}
    return architecture


def _tokenizer(config: Config, captions: Sequence[str], entries: int) -> PreTrainedTokenizerBase:
    """Return the text encoder's tokenizer; if it is not here, one of so many entries instead."""
    name = config.model.text.tokenizer or config.model.text.name
    if name == "captions" and captions:
        return word_tokenizer(captions)
    if name is not None and name != "captions":
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                name, local_files_only=True, trust_remote_code=False
            )
            return tokenizer
        except Exception:
            pass
    return word_tokenizer([" ".join(_letters(number) for number in range(max(1, entries - 5)))])


def _letters(number: int) -> str:
    return "w" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


# ---- what it takes ----


def _parameters(method: Method) -> dict[str, int]:
    model = method.model
    parts = {
        "image": sum(p.numel() for p in model.image_encoder.parameters()),
        "text": sum(p.numel() for p in model.text_encoder.parameters()),
    }
    whole = sum(p.numel() for p in model.parameters())
    training = sum(p.numel() for n, p in method.named_parameters() if not n.startswith(("model.", "keys.")))
    heads = {"heads": whole - sum(parts.values())}
    return {"all": whole, **parts, **heads} | ({"for training only": training} if training else {})


def estimate_memory(method: Method, config: Config, processes: int) -> dict[str, float]:
    """Return the bytes that a process needs on its device, by what for: an estimate."""
    frozen = [prefix for prefix, factor in config.optim.lr_scale.items() if factor == 0]
    learns = [
        weight
        for name, weight in method.named_parameters()
        if weight.requires_grad and not name.removeprefix("model.").startswith(tuple(frozen) or ("\0",))
    ]
    weights = sum(tensor.nbytes for tensor in method.state_dict().values())
    share = -(-config.optim.batch // processes)
    micro = min(config.optim.micro_batch or share, share)
    size = max(config.sizes)
    factor = 1.0 if config.optim.precision == "fp32" else HALF
    tokens = config.model.text.max_tokens
    captions = micro * config.data.captions_per_image
    passes = 1 + config.objective.masks
    activations = saved_bytes(
        method.model, lambda: _encode_image(method.model, micro, size)
    ) + passes * saved_bytes(method.model, lambda: _encode_text(method.model, captions, tokens))
    memory = {
        "weights and queues": float(weights),
        "gradients and moments": 3.0 * BYTES * sum(weight.numel() for weight in learns),
        "activations": factor * activations,
    }
    if method.model.can.vectors:  # raw and normalised vectors of the whole batch, and their gradients
        memory["vectors of the batch"] = 4.0 * BYTES * 2 * config.optim.batch * method.model.dimensions
    return memory


def _encode_image(model: DualEncoder, photos: int, size: int) -> Tensor:
    encoder = model.image_encoder
    pixels = torch.empty(photos, 3, size, size, dtype=torch.uint8, device="meta")
    if model.config.image.regions is not None:
        pixels = encoder.blank().expand(photos, -1, -1)
    states: Tensor = encoder(pixels)
    return states.float().sum()


def _encode_text(model: DualEncoder, captions: int, tokens: int) -> Tensor:
    ids = torch.zeros(captions, tokens, dtype=torch.int64, device="meta")
    states: Tensor = model.text_encoder.body(input_ids=ids).last_hidden_state
    return states.float().sum()


def saved_bytes(module: nn.Module, function: Callable[[], Tensor]) -> int:
    """Return the bytes of the tensors that a function's backward pass needs, without a module's weights."""
    weights = {weight.untyped_storage()._cdata for weight in module.parameters()}
    held: dict[int, tuple[Tensor, int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            held[storage._cdata] = tensor, storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function()
    del output
    return sum(size for _, size in held.values())
