"""The pool: what is made of each thing in their order, whoever makes it, and a clear error where a process dies."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading import workers

pytestmark = pytest.mark.skipif(not workers.POSSIBLE, reason="needs fork")

FAILURE = "the numbers were not doubled"


@pytest.fixture(autouse=True, params=[2, 3])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(workers, "processors", lambda: request.param)
    found: int = request.param
    return found


def doubled(number: int) -> tuple[int, int]:
    return 2 * number, os.getpid()


def test_in_their_order_by_other_processes(count: int) -> None:
    made = list(workers.in_order(doubled, range(1000), [1] * 1000, FAILURE, 100))
    assert [number for number, _ in made] == [*range(0, 2000, 2)]
    assert os.getpid() not in {process for _, process in made}
    assert len({process for _, process in made}) <= count


@pytest.mark.parametrize("items", [0, 1, 199])
def test_a_single_process_if_others_do_not_pay(items: int) -> None:
    made = list(workers.in_order(doubled, range(items), [1] * items, FAILURE, 100))
    assert made == [(2 * number, os.getpid()) for number in range(items)]


def test_one_that_dies_is_an_error() -> None:
    def deadly(number: int) -> int:
        if number == 500:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(SpillscanError, match=f"{FAILURE}: a worker process was killed by signal 9"):
        list(workers.in_order(deadly, range(1000), [1] * 1000, FAILURE, 1))


def test_one_that_ends_without_its_results_is_an_error() -> None:
    def leaving(number: int) -> int:
        return number if number != 700 else os._exit(3)

    with pytest.raises(SpillscanError, match=f"{FAILURE}: a worker process failed"):
        list(workers.in_order(leaving, range(1000), [1] * 1000, FAILURE, 1))


@pytest.mark.parametrize("error", [InputError("it is truncated", "fetch it again"), ValueError("no number")])
def test_exceptions_are_raised_here(error: Exception) -> None:
    def raising(number: int) -> int:
        if number == 300:
            raise error
        return number

    with pytest.raises(type(error)) as caught:
        list(workers.in_order(raising, range(1000), [1] * 1000, FAILURE, 1))
    assert caught.value.args == error.args


def test_whoever_stops_asking_leaves_no_process() -> None:
    made = workers.in_order(doubled, range(1000), [1] * 1000, FAILURE, 1)
    _, process = next(made)
    made.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_one_of_the_pool_has_no_pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(workers, "_granted", lambda: 4)
    assert set(workers.in_order(lambda _: workers.processors(), range(100), [1] * 100, FAILURE, 1)) == {1}
    assert workers.processors() == 4


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=300), most=st.integers(1, 64))
def test_neighbours_are_made_together(sizes: list[int], most: int) -> None:
    portions = workers._portions(sizes, most)
    assert [at for portion in portions for at in portion] == [*range(len(sizes))]
    if sum(sizes):
        assert len(portions) <= most + 1
    for portion in portions:
        assert sum(sizes[at] for at in portion[:-1]) < max(1, sum(sizes) / most)
