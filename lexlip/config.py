"""Every key of an experiment's config, with its default; `lexlip.config_files` reads the YAML files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from lexlip.errors import ConfigError
from lexlip.registry import MODELS, Metric

MOST = 10**9
"""The largest number that a key may be, unless it says less: a single-precision float holds it."""


MOST_PIXELS = 10_000
"""The largest side of a photo that an encoder may take."""


def _check(section: str, config: Any, names: Sequence[str], fits: Callable[[float], bool], must: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not all(map(fits, _numbers(value))):
            raise ConfigError(f"{section}{name} is {shown(value)}; {must}")


def _check_positive(section: str, config: Any, *names: str, above: int = 0, most: int = MOST) -> None:
    must = f"it must be more than {above}, and at most {most:,}"
    _check(section, config, names, lambda number: above < number <= most, must)


def _check_not_negative(section: str, config: Any, *names: str, most: int = MOST) -> None:
    must = f"it must not be negative, and at most {most:,}"
    _check(section, config, names, lambda number: 0 <= number <= most, must)


def _check_share(section: str, config: Any, *names: str) -> None:
    _check(section, config, names, lambda number: 0 <= number <= 1, "it must be between 0 and 1")


def _check_size(section: str, config: Any, *names: str) -> None:
    """Check that numbers of whatever meaning are of a size to compute with."""
    must = f"its numbers must be from {-MOST:,} to {MOST:,}"
    _check(section, config, names, lambda number: abs(number) <= MOST, must)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, (int, float)):
        yield value


def shown(value: Any) -> str:
    """Return a value as a sentence can hold it."""
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:50]}…"


@dataclass(frozen=True)
class SourceConfig:
    """A set of photos with captions. In YAML a plain string stands for ``{path: string}``."""

    path: str  # a folder, tars, a file of captions, or scenes:COUNT:SEED
    images: str | None = None  # where the photos are, if the path is a list of them
    regions: str | None = None  # a detector's regions in these photos: a folder of .npz, or bottom-up's .tsv
    split: str | None = None  # of a Karpathy JSON or a table
    captions: tuple[str, ...] = ()  # tables with further captions of these photos, such as translations
    # tables with texts that name what is in them, such as tags: objective.anchor_words learns their words too
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataConfig:
    train: tuple[SourceConfig, ...] = (SourceConfig("scenes:4000:0"),)
    val: tuple[SourceConfig, ...] = (SourceConfig("scenes:400:1000000"),)
    others: tuple[SourceConfig, ...] = ()  # with init: `best` may lose a point of mean recall on these
    # what an epoch has once, and optim.batch counts: each photo, with captions_per_image drawn captions, or
    # each pair of a photo and a caption, as in the papers
    epoch: Literal["photos", "pairs"] = "photos"
    sample: int | None = None  # so many photos or pairs of all, drawn once by the seed; None: all
    expected: int | None = None  # photos or pairs of an epoch, to plan a run whose photos are not here yet
    captions_per_image: int = 1  # drawn anew each epoch; several are positives of the same photo
    crop: float = 1.0  # smallest area of the random crop, as a share of the photo; 1 switches it off
    flip: bool = False  # mirror half of the photos
    randaugment: tuple[int, int] = (0, 0)  # operations and magnitude; the paper uses (2, 9)
    sizes: tuple[int, ...] = ()  # pixels, one size drawn for each step (phase 2); empty: model.image.size
    # photos of a batch that are alike, by the teacher: so many of one topic, then so many of another; 0: all
    # are drawn at random
    alike: int = 0
    views: int = 0  # augmented views per photo that a frozen image body encodes once; 0: new ones each epoch
    workers: int = 2  # processes that decode photos, for each training process; 0: none

    def __post_init__(self) -> None:
        for name in ("train", "val"):
            if not getattr(self, name):
                raise ConfigError(f"data.{name} names no photos; give it some, as in data.{name}=photos.tar")
        _check_positive("data.", self, "captions_per_image", "crop", "sample", "expected")
        _check_positive("data.", self, "sizes", most=MOST_PIXELS)
        if self.epoch == "pairs" and self.captions_per_image != 1:
            raise ConfigError(
                f"data.captions_per_image is {self.captions_per_image}, but an epoch of pairs has each"
                " caption once; set it to 1, or data.epoch=photos"
            )
        _check_share("data.", self, "crop")
        if not (0 <= self.randaugment[0] <= 100 and 0 <= self.randaugment[1] <= 30):
            raise ConfigError(
                f"data.randaugment is {shown(self.randaugment)}; it must be a number of operations and a"
                " magnitude, up to 100 and up to 30"
            )
        _check_not_negative("data.", self, "views", "alike")
        if self.alike and self.epoch == "pairs":
            raise ConfigError("data.alike is for epochs of photos: set data.epoch=photos, or data.alike=0")
        _check_not_negative("data.", self, "workers", most=1000)


REGIONS = "regions"
"""The name of the image encoder that takes what an object detector found."""

BOX = 7
"""How many numbers say where a region is: x1, y1, x2, y2, width, height, area, in shares of the picture."""


@dataclass(frozen=True)
class RegionsConfig:
    """What is read of the regions that an object detector found; the `options` of an encoder of regions."""

    features: int = 2048  # numbers that describe a region
    classes: int = 0  # of the detector, for objective.smrm_loss=kl; 0: they are not read
    most: int = 100  # regions of a photo; those after them are left out

    def __post_init__(self) -> None:
        _check_positive("model.image.options.", self, "features", "most", most=10**6)
        _check_not_negative("model.image.options.", self, "classes", most=10**6)

    @property
    def numbers(self) -> int:
        """How many numbers a region has, with those that say where it is."""
        return BOX + self.features + self.classes


@dataclass(frozen=True)
class ImageEncoderConfig:
    name: str = "vit_tiny_patch16_224"  # any timm model, or "regions": see lexlip.data.region_files
    # further arguments of timm.create_model; of regions those of RegionsConfig
    options: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None  # None: random; "pretrained": timm's own; else a .safetensors file
    size: int = 224  # pixels along a side of the square input
    resize: Literal["squash", "crop"] = "crop"  # squash keeps everything, crop cuts the longer side
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    mirror: bool = False  # a photo's vector is the mean of its own and of its mirror image's
    layers: int = 0  # fresh Transformer layers over the tokens, for convolutional encoders and regions
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"  # between pixels, when a photo is resized

    def __post_init__(self) -> None:
        _check_positive("model.image.", self, "size", most=MOST_PIXELS)
        _check_positive("model.image.", self, "std")
        _check_size("model.image.", self, "mean", "options")
        _check_not_negative("model.image.", self, "layers", most=1000)
        if self.regions is not None and (self.weights is not None or self.mirror):
            raise ConfigError(
                "model.image.name=regions starts at random, and sees no mirror images: leave"
                " model.image.weights out, and set model.image.mirror=false"
            )

    @property
    def regions(self) -> RegionsConfig | None:
        """What is read of a detector's regions; None for an encoder of pixels."""
        if self.name != REGIONS:
            return None
        known = [key.name for key in fields(RegionsConfig)]
        for key, value in self.options.items():
            if key not in known or type(value) is not int:
                raise ConfigError(
                    f"model.image.options has {key}: {shown(value)}, and regions have whole numbers of"
                    f" {', '.join(known)}"
                )
        return RegionsConfig(**self.options)


@dataclass(frozen=True)
class TextEncoderConfig:
    name: str | None = None  # any transformers name or folder; None: a random BERT of `options`
    options: dict[str, Any] = field(default_factory=dict)  # overrides of the transformers config
    tokenizer: str | None = None  # None: that of `name`; "captions": whole words of the training captions
    max_tokens: int = 40

    def __post_init__(self) -> None:
        _check_positive("model.text.", self, "max_tokens", above=2, most=10**6)  # [CLS] and [SEP] are two
        _check_size("model.text.", self, "options")


@dataclass(frozen=True)
class VocabularyConfig:
    kind: Literal["all", "pieces", "words"] = "pieces"  # see lexlip.words.vocabulary
    min_count: int = 1  # for kind "words": how often a word must occur in the training captions

    def __post_init__(self) -> None:
        _check_positive("model.vocabulary.", self, "min_count")


@dataclass(frozen=True)
class ModelConfig:
    kind: str = "lexlip"  # see lexlip.registry.MODELS
    image: ImageEncoderConfig = ImageEncoderConfig()
    text: TextEncoderConfig = TextEncoderConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    # how vectors of kind lexlip or dense are compared: by their cosine, or by their dot product, as the paper
    # has it (Eq. 15-16, 21-22, Section 3.4); null: as is usual for the kind
    metric: Metric | None = None
    # how the heads start. auto: a lexicon head as the text encoder's masked-language-model head, or fitted
    # to the captions if its checkpoint has none (see lexlip.training.initialisation); a dense model's at
    # random. fitted: always fitted; random
    head: Literal["auto", "fitted", "random"] = "auto"
    companions: int = 0  # words that a word may bring along in the query encoder without a network
    special_positions: bool = False  # also pool over [CLS] and [SEP], as the public code does
    # what a dense vector is: the first token ([CLS]), the mean of all, as in CLIP a photo's first and a
    # text's last token (end), or as in SigLIP what the image encoder's own pooling makes of a photo, and the
    # last of a text's max_tokens positions, which are filled up (last); null: [CLS] for kind dense, and the
    # mean for kinds that run photo tokens through the text encoder
    pooling: Literal["cls", "mean", "end", "last"] | None = None
    # lexicon heads that take one vector of so many entries instead of every token, as `lexlip lexicon` makes
    # them from a dense model; 0: every token
    joint: int = 0
    # VLDeformer: photo tokens are of the text encoder's second segment, between [CLS] and [SEP]
    framed_photos: bool = False

    def __post_init__(self) -> None:
        known = [kind for kind, model in MODELS.items() if model.trained_here]
        if self.kind not in known:
            raise ConfigError(f"model.kind is {self.kind!r}; it must be one of {', '.join(map(repr, known))}")
        kind = MODELS[self.kind]
        if self.metric not in (None, kind.metric) and not kind.either_metric:
            raise ConfigError(
                f"model.metric is {self.metric!r}, and model.kind={self.kind} is always compared by the"
                f" {kind.metric}; leave it out"
            )
        if self.image.regions is not None and kind.words:
            raise ConfigError(
                f"model.image.name=regions is for models without words, and model.kind={self.kind} has them;"
                " take lightningdot, dense, be, ce, joint or vldeformer"
            )
        _check_not_negative("model.", self, "companions", "joint")
        if self.pooling == "end" and MODELS[self.kind].photo_tokens:
            raise ConfigError(
                f"model.pooling=end is for two separate encoders, and model.kind={self.kind} has one"
            )
        if self.pooling == "last" and not self.joint:
            raise ConfigError(
                "model.pooling=last is of a model that `lexlip lexicon` made of a SigLIP, whose model.joint"
                " is above 0; take cls, mean or end"
            )
        if self.joint and not MODELS[self.kind].words:
            raise ConfigError(
                f"model.joint is for lexicon heads, and model.kind={self.kind} has none; set it to 0"
            )

    @property
    def compared_by(self) -> Metric:
        """How two vectors are compared."""
        return self.metric or MODELS[self.kind].metric


def _for(needs: str, default: Any, loss: bool = False) -> Any:
    """Declare a key for models that have what `needs` names, an attribute of `ModelKind`."""
    return field(default=default, metadata={"needs": needs, "loss": loss})


def _loss(needs: str, default: float = 0.0) -> Any:
    """Declare the weight of a loss; 0 leaves it out."""
    return _for(needs, default, loss=True)


@dataclass(frozen=True)
class ObjectiveConfig:
    """The losses' weights and what belongs to them; equations are the LexLIP paper's."""

    contrastive: float = _loss("vectors", 1.0)  # L_baco, Eq. 15-16; with a queue Eq. 19-22
    temperature: float = 0.05
    same_image_negatives: bool = False  # other captions of a photo are its negatives, as in the public code
    queue: int = _for("cosines", 0)  # keys in each of the two queues; 0: the batch is contrasted with itself
    momentum: float = 0.99  # of the key encoders, Eq. 19
    # false: fine-tuning has no queue, as the paper drops the key encoders before it (Section 3.3); its
    # authors' README keeps them
    queue_in_finetuning: bool = True
    topk: tuple[int, ...] = _for("words", ())  # also contrast documents cut to these numbers of words
    topk_contrastive: float = 1.0  # weight of that relative to `contrastive`, averaged over `topk`
    composed_negatives: bool = _for("token_vectors", False)  # VLDeformer: half-changed photos and captions
    flops_image: float = _loss("words", 0.002)  # Eq. 17
    flops_text: float = _loss("words", 0.002)
    flops_warmup: float = 0.3  # share of the run over which the FLOPS weights grow quadratically
    flops_unit: bool = False  # FLOPS on unit vectors, as the public code does
    # FLOPS of each process's part of the batch, and their mean, as the public code does: more processes are a
    # stronger pressure
    flops_per_process: bool = False
    mlm: float = _loss("any")  # L_self, Eq. 7
    image_to_text: float = _loss("vectors")  # L_i2t, Eq. 8-13: the caption from the photo's bottleneck
    text_to_text: float = _loss("vectors")  # L_t2t, Eq. 14: the same from the masked caption's bottleneck
    mask_encoder: float = 0.3  # share of the words that is masked for the text encoder
    mask_decoder: float = 0.5  # and for the decoders
    # factor on logits before a softmax over words (Eq. 7, 8, 13, anchor_words): fitted heads start with
    # logits below 1, masked-language-model heads with tens
    softmax_scale: float = 1.0
    share_decoder: bool = False  # one decoder for images and texts, as in the public code
    anchor_contrastive: float = _loss("words")  # image against the caption's bag of words
    anchor_align: float = _loss("words")  # 1 - cosine of the text vector and the caption's bag of words
    anchor_words: float = _loss("words")  # the image bottleneck (Eq. 8) predicts the words of its captions
    caption_gated: float = _loss("words")  # V-SPLADE: photos activate words that their captions have
    # share of the run in which a caption's chance to have other words than its own rises from 0 to 1 (D2S);
    # 0: it always has them
    expansion_warmup: float = _for("words", 0.0)
    # D2S: words follow the scores of the dense vectors below them (model.joint), which are not changed by it
    dense_distillation: float = _loss("words")
    # contrast of words, of these dense vectors and of both together, whose scores each of the two follows
    self_distillation: float = _loss("words")
    distillation: float = _loss("vectors")  # follows the scores of `teacher`, with documents cut as by `topk`
    vector_distillation: float = _loss("vectors")  # stays near the vectors of the start, as `teacher`
    triplet: float = _loss("vectors")  # BE: a pair against the hardest negatives of the batch
    margin: float = 0.1  # of the triplets
    matching: float = _loss("pairs")  # CE, Joint: whether a caption describes a photo
    hard_negatives: float = _for("pairs", 0.0)  # share of non-pairs with a caption similar to the photo's
    alternate: bool = False  # matching, vmlm, smrm and the other losses together take turns, step by step
    vmlm: float = _loss("state_vectors")  # LightningDOT: masked words from states and the photo's vector
    smrm: float = _loss("state_vectors")  # LightningDOT: masked patches from states and the caption's vector
    mask_patches: float = 0.15  # share of a photo's tokens that is masked
    fused: bool = True  # false: vmlm and smrm without the other side's vector
    # what smrm predicts of a masked patch. mse: its pixels, or its token below fresh layers; kl: its unmasked
    # token's softmax over channels, which replaces the classes of the paper's object detector. Of a masked
    # region: mse its features (MRFR), kl its classes (MRC-kl), as in the paper
    smrm_loss: Literal["mse", "kl"] = "mse"

    def __post_init__(self) -> None:
        _check_not_negative("objective.", self, *LOSSES, "topk_contrastive", "queue", "flops_warmup")
        _check_not_negative("objective.", self, "margin")
        _check_positive("objective.", self, "temperature", "softmax_scale", "mask_patches", "topk")
        _check_share("objective.", self, "momentum", "mask_encoder", "mask_decoder", "mask_patches")
        _check_share("objective.", self, "hard_negatives", "expansion_warmup")
        if self.alternate and len(self.turns) < 2:
            raise ConfigError("objective.alternate has one loss only to train; set it to false")
        if self.mask_encoder > self.mask_decoder:
            raise ConfigError(
                f"objective.mask_decoder is {self.mask_decoder}; what is masked for the encoder is masked for"
                f" the decoders too, so it must be at least mask_encoder={self.mask_encoder}"
            )
        if not any(getattr(self, name) for name in LOSSES):
            raise ConfigError(
                f"all losses have weight 0; one of objective.{', '.join(LOSSES)} must have more"
            )

    @property
    def turns(self) -> tuple[ObjectiveConfig, ...]:
        """The objectives that take turns: with `alternate` all losses but TASKS, then each of these alone."""
        if not self.alternate:
            return (self,)
        weights = {name: getattr(self, name) for name in LOSSES if getattr(self, name)}
        others = {name: weight for name, weight in weights.items() if name not in TASKS}
        turns = [others, *({name: weights[name]} for name in TASKS if name in weights)]
        off: dict[str, Any] = dict.fromkeys(LOSSES, 0.0)
        return tuple(replace(self, alternate=False, **{**off, **turn}) for turn in turns if turn)

    @property
    def only_matches(self) -> bool:
        return not any(getattr(self, name) for name in LOSSES if name != "matching")

    @property
    def decodes(self) -> bool:
        """Whether phase 1's bottlenecked decoders are trained."""
        return self.image_to_text > 0 or self.text_to_text > 0

    @property
    def masks(self) -> bool:
        return self.mlm > 0 or self.vmlm > 0 or self.decodes

    @property
    def anchors(self) -> bool:
        return self.anchor_contrastive > 0 or self.anchor_align > 0 or self.anchor_words > 0

    @property
    def reads_words(self) -> bool:
        """Whether a loss looks at the words that captions have."""
        return self.anchors or self.caption_gated > 0 or self.expansion_warmup > 0

    @property
    def joint(self) -> bool:
        """Whether a loss looks at the dense vectors which words are made of."""
        return any(getattr(self, name) for name in JOINT)


TASKS = ("matching", "vmlm", "smrm")
"""The losses that have a step to themselves with `ObjectiveConfig.alternate`."""

JOINT = ("dense_distillation", "self_distillation")
"""The losses that look at the dense vectors which a model's words are made of."""

LOSSES = tuple(key.name for key in fields(ObjectiveConfig) if key.metadata.get("loss"))
"""The keys that are weights of losses."""

PRESETS: dict[str, dict[str, Any]] = {
    "fixed": {},  # the defaults above
    "faithful": {
        "model": {"special_positions": True, "vocabulary": {"kind": "all"}},
        "objective": {
            "same_image_negatives": True,
            "flops_image": 0.002,
            "flops_text": 0.002,
            "flops_warmup": 0,
            "flops_unit": True,
            "flops_per_process": True,
            "share_decoder": True,
        },
    },
    "paper": {
        "model": {
            "metric": "dot",
            "special_positions": True,
            "vocabulary": {"kind": "all"},
            "head": "random",
        },
        "objective": {
            "same_image_negatives": True,
            "flops_image": 0.001,  # Eq. 17 weights the mean of both sides with 0.002
            "flops_text": 0.001,
            "flops_warmup": 0,
            "queue_in_finetuning": False,
        },
    },
}
"""The keys that `preset` stands for: what the project recommends, the authors' code does, or the paper says.

docs/papers.md has the source of each. The keys of the file that names the preset, and overrides, count more.
"""


@dataclass(frozen=True)
class OptimConfig:
    epochs: float = 10.0
    steps: int | None = None  # length of the run; overrides epochs
    # length of the run by the clock, from when all is set up to its last checkpoint; overrides steps and
    # epochs. Learning rate and FLOPS warm-up follow the share of it that is used
    minutes: float | None = None
    batch: int = 64  # photos or pairs per step (see data.epoch), over all processes
    # photos that a process encodes at a time; the gradient is the same, but for dropout
    micro_batch: int | None = None
    lr: float = 5e-5
    lr_scale: dict[str, float] = field(default_factory=dict)  # factor by prefix of the parameter's name
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    weight_decay: float = 0.01
    warmup: float = 0.1  # share of the run
    clip: float = 1.0  # largest norm of the gradient
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"  # bf16 if the device supports it, else fp32
    checkpoint_activations: bool = False  # recompute activations in the backward pass instead of keeping them
    compile: bool = False  # run both encoders through torch.compile

    def __post_init__(self) -> None:
        _check_positive("optim.", self, "epochs", "steps", "minutes", "batch", "micro_batch", "lr", "clip")
        _check_not_negative("optim.", self, "weight_decay", "lr_scale")
        _check_share("optim.", self, "warmup")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"optim.betas is {shown(self.betas)}; both must be at least 0 and less than 1")

    def run_steps(self, rows: int | None) -> int | None:
        """Return the steps of a run whose epochs have so many photos or pairs; None: not known before."""
        if self.minutes is not None:
            return None
        return self.steps or (max(1, int(self.epochs * (rows // self.batch))) if rows else None)


_NEEDS = {
    "words": "weighted words",
    "vectors": "vectors of photos and of captions",
    "token_vectors": "vectors that every token contributes to",
    "cosines": "vectors compared by their cosine",
    "pairs": "pairs of a photo and a caption",
    "state_vectors": "vectors that are added to token states",
}
"""What a key of the objective needs (an attribute of `ModelKind`), in words."""


@dataclass(frozen=True)
class Config:
    name: str = "scenes"
    preset: Literal["fixed", "faithful", "paper"] = "fixed"  # see PRESETS
    seed: int = 0
    out: str | None = None  # the run's folder; None: runs/NAME
    finetuning: bool = False  # fine-tuning, after both phases: see objective.queue_in_finetuning
    phase: str | None = None  # its name among the phases of a config (see lexlip.config_files.load_phases)
    device: str = "auto"  # auto: a GPU if there is one
    init: str | None = None  # checkpoint to start from; the model section must agree, except for the size
    # a model with vectors, by packaged name, folder or hub name, for objective.distillation and data.alike; a
    # YAML file may say init, for the one that the run or phase starts from, as objective.vector_distillation
    # needs
    teacher: str | None = None
    # a folder in which runs keep what they make before the first step, for others that need the same: the new
    # model, views of a frozen image body, the teacher's vectors; None: none is kept but the teacher's, in RUN
    prepared: str | None = None
    # with init: content words that the training captions have so often, and the checkpoint does not, join its
    # vocabulary; 0: none
    new_words: int = 0
    # with init: at its end a run looks for the best weights also so far on the way from the start's to the
    # end's: [0.5] is their mean (WiSE-FT, arXiv 2109.01903)
    interpolate: tuple[float, ...] = ()
    validate_every: int = 200  # steps
    checkpoint_every: int = 200  # steps
    checkpoint_minutes: float | None = None  # also whenever so much time has passed since the last one
    log_every: int = 10  # steps
    log: tuple[
        Literal["tensorboard"], ...
    ] = ()  # where RUN's figures go besides metrics.jsonl: RUN/tensorboard
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optim: OptimConfig = OptimConfig()

    def __post_init__(self) -> None:
        _check_positive("", self, "validate_every", "checkpoint_every", "checkpoint_minutes", "log_every")
        _check_not_negative("", self, "seed", most=2**63 - MOST)
        _check_not_negative("", self, "new_words")
        _check_share("", self, "interpolate")
        for key, value in (("interpolate", self.interpolate), ("data.others", self.data.others)):
            if value and self.init is None:
                raise ConfigError(
                    f"{key} is for runs that start from a model: give one (init=), or set {key}=[]"
                )
        objective = self.objective
        needs = objective.distillation, objective.vector_distillation, self.data.alike
        if (self.teacher is not None) != any(needs):
            raise ConfigError(
                "teacher is the model for objective.distillation, objective.vector_distillation and"
                " data.alike: give it with one of them above 0, or leave all of them out"
            )
        going_on = str(self.folder / "last")  # what a run starts from that was interrupted
        if objective.vector_distillation and self.init not in (self.teacher, going_on):
            raise ConfigError(
                "objective.vector_distillation stays near the vectors of the start: give teacher=init"
            )
        if self.objective.composed_negatives and self.optim.micro_batch is not None:
            raise ConfigError(
                "objective.composed_negatives mixes the photos of a batch, so they must be encoded together;"
                " leave optim.micro_batch out"
            )
        for name in ("matching", "composed_negatives"):
            if getattr(self.objective, name) and self.optim.batch < 2:
                raise ConfigError(
                    f"objective.{name} makes wrong pairs of the photos of a batch, and optim.batch is 1: set"
                    " it to 2 or more"
                )
        if self.data.views and self.data.sizes:
            raise ConfigError(
                "data.views is for photos of one size: leave data.sizes empty, or set data.views=0"
            )
        if self.data.views and self.objective.smrm and not self.model.image.layers:
            raise ConfigError(
                "data.views keeps no pixels that objective.smrm could mask: set model.image.layers=2 for"
                " further layers, whose tokens are masked, or data.views=0"
            )
        self._check_regions()
        kind = MODELS[self.model.kind]
        if self.model.joint and (self.init is None or self.objective.masks):
            raise ConfigError(
                "model.joint is of a model that `lexlip lexicon` made, and its heads do not read tokens:"
                " start from it (init=), and set the weights of mlm, image_to_text and text_to_text to 0"
            )
        for name in JOINT:
            if getattr(self.objective, name) and not self.model.joint:
                raise ConfigError(
                    f"objective.{name} compares words with the dense vectors that they are made of: start"
                    " from a model that `lexlip lexicon` made (init=, model.joint), or set it to 0"
                )
        if self.new_words and (self.init is None or not kind.words or self.model.joint):
            raise ConfigError(
                "new_words adds to the vocabulary of a model that a run starts from, whose lexicon heads read"
                " tokens: give a lexlip model (init=) with model.joint=0, or set new_words=0"
            )
        if self.new_words and self.model.vocabulary.kind != "words":
            raise ConfigError(
                f"new_words adds whole words, and model.vocabulary.kind is {self.model.vocabulary.kind}: set"
                " new_words=0"
            )
        if self.model.framed_photos and not kind.photo_tokens:
            raise ConfigError(
                "model.framed_photos is for models that run photo tokens through the text encoder, and"
                f" model.kind={self.model.kind} does not; set it to false"
            )
        self._check_objective()

    @property
    def folder(self) -> Path:
        """RUN, where training writes."""
        return Path(self.out or f"runs/{self.name}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Pixels along a side of photos; one is drawn for each step."""
        return self.data.sizes or (self.model.image.size,)

    def _check_regions(self) -> None:
        regions, data = self.model.image.regions, self.data
        if regions is None:
            return
        if data.crop < 1 or data.flip or data.randaugment[0] or data.sizes or data.views:
            raise ConfigError(
                "model.image.name=regions takes what a detector found, which is not augmented: leave"
                " data.crop, flip, randaugment, sizes and views out, or set randaugment=[0,0]"
            )
        if self.objective.smrm and self.objective.smrm_loss == "kl" and not regions.classes:
            raise ConfigError(
                "objective.smrm_loss=kl predicts a detector's classes: say how many there are, in"
                " model.image.options={classes: 1600}, or set objective.smrm_loss=mse"
            )

    def _check_objective(self) -> None:
        kind = MODELS[self.model.kind]
        for key in fields(ObjectiveConfig):
            value, needs = getattr(self.objective, key.name), key.metadata.get("needs", "any")
            if value and needs != "any" and not getattr(kind, needs):
                zero = {tuple: "[]", bool: "false"}.get(type(value), 0)
                raise ConfigError(
                    f"objective.{key.name} is for {_NEEDS[needs]}, and model.kind={self.model.kind} has none;"
                    f" set it to {zero}"
                )
