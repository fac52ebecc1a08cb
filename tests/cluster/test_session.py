import subprocess
import sys

import pytest

NULL_POINTERS = """
from anserini_bridge import start_jvm
from lexlip.cluster.session import connected

start_jvm()
from jnius import JavaException, autoclass

texts = autoclass("java.lang.String")


def dereference():
    # the compiled code of a loop that meets null once in a while finds it by a segmentation fault
    list_of = autoclass("java.util.ArrayList")()
    for number in range(30_000):
        list_of.add(texts("a"))
    sort = autoclass("java.util.Collections").sort
    for attempt in range(30):
        sort(list_of)
    list_of.add(None)
    try:
        sort(list_of)
    except JavaException as error:
        assert "NullPointer" in str(error) + str(error.classname), error
        return
    raise AssertionError("null was sorted")


dereference()
with connected("local"):
    dereference()
dereference()
print("alive")
"""


@pytest.mark.slow
def test_java_outlives_a_cluster() -> None:
    done = subprocess.run([sys.executable, "-c", NULL_POINTERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["alive"]
