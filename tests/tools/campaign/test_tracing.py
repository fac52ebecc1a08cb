from pathlib import Path

import pytest

from tools.campaign import tracing
from tools.campaign.tracing import Call

pytestmark = pytest.mark.skipif(tracing.missing() is not None, reason=str(tracing.missing()))


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    (tmp_path / "watched").mkdir()
    return tmp_path / "watched"


def test_calls_that_touch_a_folder_are_found_and_fail_on_demand(tmp_path: Path, watched: Path) -> None:
    command = ["sh", "-c", f"echo a > {watched}/file; echo b >> {watched}/file; echo c > {tmp_path}/other"]
    calls, second = tracing.record(command, tmp_path, watched), Call("write", "/file", 2)
    assert {call.path for call in calls} == {"/file"}
    assert second in calls

    ended, came = tracing.at(second, "error=ENOSPC", command, tmp_path, watched)
    assert came
    assert ended.stderr
    assert (watched / "file").read_text() == "a\n"


def test_a_process_is_killed_as_it_is_about_to_make_a_call(tmp_path: Path, watched: Path) -> None:
    command = ["sh", "-c", f"echo a > {watched}/file; echo b >> {watched}/file; true"]
    ended, came = tracing.at(Call("write", "/file", 2), "signal=KILL", command, tmp_path, watched)
    assert came
    assert ended.code != 0
    assert (watched / "file").read_text() == "a\n"
