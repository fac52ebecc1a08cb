"""What an experiment, or a model, is made of: the keys that a config may have, with their defaults.

`lexlip.config_files` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lexlip.errors import ConfigError


def _check_positive(section: str, config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise ConfigError(f"{section}{name} is {value}; it must be more than 0")


def _check_not_negative(section: str, config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= 0:
            raise ConfigError(f"{section}{name} is {getattr(config, name)}; it must not be negative")


def _check_share(section: str, config: Any, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(config, name) <= 1:
            raise ConfigError(f"{section}{name} is {getattr(config, name)}; it must be between 0 and 1")


@dataclass(frozen=True)
class SourceConfig:
    """A set of photos with captions. In YAML a plain string stands for ``{path: string}``."""

    path: str  # folder, tars, Karpathy JSON, table, or scenes:COUNT:SEED
    images: str | None = None  # root of the image files, where the path is a list of them
    split: str | None = None  # of a Karpathy JSON
    captions: tuple[str, ...] = ()  # tables of further captions of these photos, such as translations


@dataclass(frozen=True)
class DataConfig:
    train: tuple[SourceConfig, ...] = (SourceConfig("scenes:4000:0"),)
    val: tuple[SourceConfig, ...] = (SourceConfig("scenes:400:1000000"),)
    captions_per_image: int = 1  # drawn anew each epoch; more than one are positives of the same image
    crop: float = 1.0  # smallest area of the random crop, as a share of the photo; 1 is no crop
    flip: bool = False  # mirror half of the photos
    randaugment: tuple[int, int] = (0, 0)  # operations and magnitude; the paper's is (2, 9)
    sizes: tuple[int, ...] = ()  # pixels, one drawn for each step (phase 2); none: model.image.size
    views: int = 0  # of a photo to draw from, which a frozen image body sees once; 0: a new one each epoch
    workers: int = 2  # processes, for each training process, that decode photos; 0: none but itself

    def __post_init__(self) -> None:
        for name in ("train", "val"):
            if not getattr(self, name):
                raise ConfigError(f"data.{name} names no photos; give it some, as in data.{name}=photos.tar")
        _check_positive("data.", self, "captions_per_image", "crop")
        _check_share("data.", self, "crop")
        if not (self.randaugment[0] >= 0 and 0 <= self.randaugment[1] <= 30):
            raise ConfigError(
                f"data.randaugment is {list(self.randaugment)}; it must be a number of operations and a"
                " magnitude up to 30"
            )
        _check_not_negative("data.", self, "views", "workers")
        if any(size <= 0 for size in self.sizes):
            raise ConfigError(f"data.sizes is {list(self.sizes)}; sizes must be more than 0")


@dataclass(frozen=True)
class ImageEncoderConfig:
    name: str = "vit_tiny_patch16_224"  # any timm model
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of timm.create_model
    weights: str | None = None  # None: random; "pretrained": timm's own; else a .safetensors file
    size: int = 224  # pixels of the square input
    resize: Literal["squash", "crop"] = "crop"  # to a square: squash keeps all, crop cuts the longer side
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    layers: int = 0  # fresh Transformer layers over the tokens, for convolutional encoders

    def __post_init__(self) -> None:
        _check_positive("model.image.", self, "size")
        _check_not_negative("model.image.", self, "layers")


@dataclass(frozen=True)
class TextEncoderConfig:
    name: str | None = None  # any transformers name or folder; None: a random BERT of `options`
    options: dict[str, Any] = field(default_factory=dict)  # overrides of the transformers config
    tokenizer: str | None = None  # None: that of `name`; "captions": whole words of the training captions
    max_tokens: int = 40

    def __post_init__(self) -> None:
        _check_positive("model.text.", self, "max_tokens")


@dataclass(frozen=True)
class VocabularyConfig:
    kind: Literal["all", "pieces", "words"] = "pieces"  # see lexlip.vocabulary
    min_count: int = 1  # of kind "words": times a word occurs in the training captions

    def __post_init__(self) -> None:
        _check_positive("model.vocabulary.", self, "min_count")


@dataclass(frozen=True)
class ModelConfig:
    # dense: a [CLS] vector instead of weighted words; the others are stages to compare with
    kind: Literal["lexlip", "dense", "lightningdot", "vldeformer", "be", "ce", "joint"] = "lexlip"
    image: ImageEncoderConfig = ImageEncoderConfig()
    text: TextEncoderConfig = TextEncoderConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    # how the lexicon heads start: as the text encoder's masked-language-model head, and where its checkpoint
    # has none fitted to the captions (see lexlip.training.start); always fitted; at random
    head: Literal["auto", "fitted", "random"] = "auto"
    companions: int = 0  # words that a word may bring along in the query encoder without a network
    special_positions: bool = False  # pool [CLS] and [SEP] too, as the public code does
    # of dense vectors: the first token ([CLS]) or the mean of all; null: [CLS] for kind dense, and the
    # mean where one Transformer is run on both
    pooling: Literal["cls", "mean"] | None = None

    def __post_init__(self) -> None:
        _check_not_negative("model.", self, "companions")


@dataclass(frozen=True)
class ObjectiveConfig:
    """Weights of the losses; 0 leaves one out. Equations are the LexLIP paper's."""

    contrastive: float = 1.0  # L_baco, Eq. 15-16; with a queue the momentum contrast, Eq. 19-22
    temperature: float = 0.05
    same_image_negatives: bool = False  # captions of one image are negatives of it, as in the public code
    queue: int = 0  # keys that each of the two queues holds; 0: the batch is contrasted with itself
    momentum: float = 0.99  # of the key encoders, Eq. 19
    topk: tuple[int, ...] = ()  # the contrastive loss also on documents cut to these numbers of terms
    topk_contrastive: float = 1.0  # weight of that beside `contrastive`, averaged over `topk`
    flops_image: float = 0.002  # Eq. 17
    flops_text: float = 0.002
    flops_warmup: float = 0.3  # share of the run over which the FLOPS weight grows quadratically
    flops_unit: bool = False  # FLOPS on unit vectors, as the public code does
    mlm: float = 0.0  # L_self, Eq. 7
    image_to_text: float = 0.0  # L_i2t, Eq. 8-13: the caption decoded from the image's bottleneck
    text_to_text: float = 0.0  # L_t2t, Eq. 14: the same from the masked caption's bottleneck
    mask_encoder: float = 0.3  # share of the words masked for the text encoder
    mask_decoder: float = 0.5  # and for the decoders
    # factor on logits where a softmax makes words' probabilities of them (Eq. 7, 8, 13, anchor_words): fitted
    # heads start with logits below 1, masked-language-model heads with tens
    softmax_scale: float = 1.0
    triplet: float = 0.0  # a pair against the hardest negatives of the batch
    margin: float = 0.1  # of the triplets
    matching: float = 0.0  # whether a caption is of a photo, for kinds ce and joint
    hard_negatives: float = 0.0  # share of their non-pairs whose caption is much like the photo's own
    alternate: bool = False  # one step matching, one step the other losses, instead of all in each
    composed_negatives: bool = False  # photos and captions that are changed by half in the contrastive loss
    vmlm: float = 0.0  # LightningDOT: masked words from their states and the photo's vector
    smrm: float = 0.0  # and masked patches from theirs and the caption's
    mask_patches: float = 0.15  # share of a photo's tokens masked
    share_decoder: bool = False  # one decoder for images and texts, as in the public code
    anchor_contrastive: float = 0.0  # image against the caption's bag of words
    anchor_align: float = 0.0  # 1 - cosine of the text vector and its bag of words
    anchor_words: float = 0.0  # the image bottleneck (Eq. 8) predicts its captions' words

    def __post_init__(self) -> None:
        _check_not_negative("objective.", self, *LOSSES, "topk_contrastive", "queue", "flops_warmup")
        _check_not_negative("objective.", self, "margin")
        _check_positive("objective.", self, "temperature", "softmax_scale", "mask_patches")
        _check_share("objective.", self, "momentum", "mask_encoder", "mask_decoder", "mask_patches")
        _check_share("objective.", self, "hard_negatives")
        if self.mask_encoder > self.mask_decoder:
            raise ConfigError(
                f"objective.mask_decoder is {self.mask_decoder}; what is masked for the encoder is masked for"
                f" the decoders too, so it must be at least mask_encoder={self.mask_encoder}"
            )
        if any(k <= 0 for k in self.topk):
            raise ConfigError(f"objective.topk is {list(self.topk)}; numbers of terms must be more than 0")
        if not any(getattr(self, name) for name in LOSSES):
            raise ConfigError(
                f"all losses have weight 0; one of objective.{', '.join(LOSSES)} must have more"
            )

    @property
    def decodes(self) -> bool:
        """Whether phase 1's bottlenecked decoders are trained."""
        return self.image_to_text > 0 or self.text_to_text > 0

    @property
    def masks(self) -> bool:
        """Whether captions are masked."""
        return self.mlm > 0 or self.vmlm > 0 or self.decodes

    @property
    def anchors(self) -> bool:
        """Whether bags of words are needed."""
        return self.anchor_contrastive > 0 or self.anchor_align > 0 or self.anchor_words > 0


LOSSES = (
    *("contrastive", "flops_image", "flops_text", "mlm", "image_to_text", "text_to_text"),
    *("anchor_contrastive", "anchor_align", "anchor_words"),
    *("triplet", "matching", "vmlm", "smrm"),
)

PRESETS: dict[str, dict[str, Any]] = {
    "fixed": {},  # the defaults above
    "faithful": {
        "model": {"special_positions": True, "vocabulary": {"kind": "all"}},
        "objective": {"same_image_negatives": True, "flops_unit": True, "flops_warmup": 0},
    },
}
"""What a config starts from, by `preset`: what the project recommends, or what the authors' code does."""


@dataclass(frozen=True)
class OptimConfig:
    epochs: float = 10.0
    steps: int | None = None  # length of the run, instead of epochs
    batch: int = 64  # images a step, over all processes
    micro_batch: int | None = None  # images a process encodes at a time; the gradient does not depend on it
    lr: float = 5e-5
    lr_scale: dict[str, float] = field(default_factory=dict)  # factor by prefix of the parameter's name
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    weight_decay: float = 0.01
    warmup: float = 0.1  # share of the steps
    clip: float = 1.0
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"  # bf16 where the device has it, else fp32
    checkpoint_activations: bool = False  # compute them twice instead of keeping them
    compile: bool = False  # torch.compile both encoders

    def __post_init__(self) -> None:
        _check_positive("optim.", self, "epochs", "steps", "batch", "micro_batch", "lr", "clip")
        _check_not_negative("optim.", self, "weight_decay", "warmup")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"optim.betas is {list(self.betas)}; both must be at least 0 and less than 1")


_VECTORS = ("lexlip", "dense", "lightningdot", "vldeformer", "be", "joint")
_SPECIAL = (
    (
        ("flops_image", "flops_text", "anchor_contrastive", "anchor_align", "anchor_words", "topk"),
        ("lexlip",),
        "weighted words",
    ),
    (("contrastive", "triplet"), _VECTORS, "vectors of photos and of captions"),
    (("composed_negatives",), ("lexlip", "vldeformer", "be", "joint"), "vectors that every token shapes"),
    (("image_to_text", "text_to_text"), _VECTORS, "vectors of photos and of captions"),
    (("queue",), tuple(kind for kind in _VECTORS if kind != "lightningdot"), "cosines"),
    (("matching", "hard_negatives", "alternate"), ("ce", "joint"), "pairs"),
    (("vmlm", "smrm"), ("lightningdot",), "vectors that states are added to"),
)
"""Objectives, the kinds of models that they are for, and what those have."""


@dataclass(frozen=True)
class Config:
    name: str = "scenes"
    preset: Literal["fixed", "faithful"] = "fixed"  # see PRESETS; what a config says itself counts more
    seed: int = 0
    out: str | None = None  # None: runs/NAME
    device: str = "auto"
    init: str | None = None  # checkpoint to start from; the model section must agree, but for the size
    validate_every: int = 200  # steps
    checkpoint_every: int = 200  # steps
    log_every: int = 10  # steps
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optim: OptimConfig = OptimConfig()

    def __post_init__(self) -> None:
        _check_positive("", self, "validate_every", "checkpoint_every", "log_every")
        _check_not_negative("", self, "seed")
        if self.objective.composed_negatives and self.optim.micro_batch is not None:
            raise ConfigError(
                "objective.composed_negatives mixes the photos of a batch, which must be encoded together;"
                " leave optim.micro_batch out"
            )
        for names, kinds, what in _SPECIAL:
            if self.model.kind in kinds:
                continue
            for name in names:
                value = getattr(self.objective, name)
                if value:
                    zero = {tuple: "[]", bool: "false"}.get(type(value), 0)
                    raise ConfigError(
                        f"objective.{name} is for {what}, and model.kind={self.model.kind} has none;"
                        f" set it to {zero}"
                    )
