from lexlip.retrieval.states import Renewed, Shared


class State:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_last_user_closes_it() -> None:
    shared = Shared(State())
    assert shared.take() is shared
    shared.release()
    assert not shared.value.closed
    shared.release()
    assert shared.value.closed == 1


def test_who_holds_a_state_keeps_it_open() -> None:
    first, second = State(), State()
    renewed = Renewed(first)
    with renewed.hold() as held:
        renewed.move(second)
        assert held._now.value is first
        assert renewed._now.value is second
        renewed.close()
        assert (first.closed, second.closed) == (0, 1)
    assert (first.closed, second.closed) == (1, 1)
