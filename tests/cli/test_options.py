from collections.abc import Callable
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

from lexlip.cli import options
from lexlip.errors import ConfigError
from lexlip.retrieval.first_stage import EngineName
from lexlip.search.hybrid import Fusion, Hybrid
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import Scheme


def run(arguments: list[str], *decorators: Callable[..., Any], body: Callable[..., Any] | None = None) -> Any:
    """What a command with these options is given: its parameters, or what `body` makes of its context."""
    found = []

    @click.pass_context
    def command(context: click.Context, **given: Any) -> None:
        found.append(given if body is None else body(context))

    for decorator in decorators:
        command = decorator(command)
    result = CliRunner().invoke(click.command()(command), arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


def test_a_number_of_words_or_all() -> None:
    option = options.query_topk_option()
    assert run([], option) == {"query_topk": SENTENCE_TOPK}
    assert run(["--query-topk", "3"], option) == {"query_topk": 3}
    assert run(["--query-topk", "all"], option) == {"query_topk": None}
    assert run([], options.query_topk_option("all")) == {"query_topk": None}
    for wrong in ("0", "few"):
        says = f"'--query-topk': '{wrong}' is neither a number of at least 1 nor all"
        with pytest.raises(AssertionError, match=says):
            run(["--query-topk", wrong], option)


def test_what_the_user_gave() -> None:
    def body(context: click.Context) -> Any:
        return options.given(context, "topk")

    assert run([], options.topk_option(all_words=True), body=body) is None
    assert (
        run(["--topk", "32"], options.topk_option(all_words=True), body=body) == 32
    )  # though it is the default


def test_options_that_do_nothing_are_refused() -> None:
    def body(context: click.Context) -> None:
        options.refuse(context, ["query_encoder", "topk"], "is for models")

    both = options.topk_option(all_words=True), options.query_encoder_option
    assert run([], *both, body=body) is None
    with pytest.raises(ConfigError, match=r"^--topk is for models: leave it out$"):
        run(["--topk", "8"], *both, body=body)
    with pytest.raises(ConfigError, match=r"^--query-encoder is for models: leave it out$"):
        run(["--query-encoder", "words"], *both, body=body)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], None),
        (["--rerank", "ce", "--rerank-k", "5", "--also", "ix", "--hybrid", "weighted"], None),
        (["--rerank-k", "5"], "--rerank-k is for --rerank: leave it out"),
        (["--also", "ix", "--rerank-fusion", "add"], "--rerank-fusion is for --rerank: leave it out"),
        (["--rerank", "ce", "--hybrid-weight", "0.5"], "--hybrid-weight is for --also: leave it out"),
    ],
)
def test_what_belongs_to_a_second_stage_or_index(arguments: list[str], says: str | None) -> None:
    both = options.second_stage_options("DIR", "A second index")
    if says is None:
        assert run(arguments, both, body=options.check_second_stage) is None
    else:
        with pytest.raises(ConfigError, match=f"^{says}$"):
            run(arguments, both, body=options.check_second_stage)


def test_one_format() -> None:
    options.one_format(markdown=True, as_json=False)
    with pytest.raises(click.UsageError, match="give --markdown or --json, not both"):
        options.one_format(markdown=True, as_json=True)


def test_choices_are_those_of_the_code() -> None:
    """They are written out, as importing what they are of takes long."""
    assert set(options.FUSIONS) == set(get_args(Fusion))
    found = {}
    decorators = [
        options.engine_option,
        options.quantization_option,
        options.language_option,
        options.second_stage_options("DIR", "A second index"),
    ]

    def command(**given: Any) -> None:
        pass

    for decorator in decorators:
        decorator(command)
    for option in command.__click_params__:  # type: ignore[attr-defined]
        if isinstance(option.type, click.Choice):
            found[option.name] = set(option.type.choices)
    from anserini_bridge.bm25 import LANGUAGES

    assert found == {
        "engine": set(get_args(EngineName)),
        "quantization": set(get_args(Scheme)),
        "language": set(LANGUAGES),
        "hybrid": set(get_args(Hybrid)),
        "rerank_fusion": set(get_args(Fusion)),
    }
