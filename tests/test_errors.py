import pytest
from safetensors import SafetensorError

from lexlip.errors import MORE_FILES, DataError, limit_reached, out_of_memory, writing


def test_what_the_system_says() -> None:
    with (
        pytest.raises(DataError, match=r"^cannot write the index ix: No space left on device; try again$"),
        writing("the index ix", "; try again"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(DataError, match=r"^cannot write it: odd$"), writing("it"):
        raise OSError("odd")
    with pytest.raises(DataError, match=r"^cannot write it: Permission denied$"), writing("it"):
        raise SafetensorError("I/O error: Permission denied (os error 13)")  # as Rust wraps it


def test_other_errors_stay() -> None:
    for error in (ZeroDivisionError("os"), SafetensorError("a tensor is too large")):
        with pytest.raises(type(error)), writing("it"):
            raise error


def test_errors_of_too_little_memory() -> None:
    for error in (MemoryError(), OSError(12, "x"), RuntimeError("std::bad_alloc")):
        assert out_of_memory(error)
    assert not out_of_memory(RuntimeError("x"))


def test_limits_of_the_system() -> None:
    for error in (OSError(24, "Too many open files"), DataError("Lucene failed (Too many open files): wait")):
        assert limit_reached(error) == MORE_FILES
    for error, advice in ((RuntimeError("can't start new thread"), "`ulimit -u`"), (MemoryError(), "memory")):
        assert advice in str(limit_reached(error))
    assert limit_reached(OSError(28, "No space left on device")) is None
