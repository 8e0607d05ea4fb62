"""The road that CUDA takes finds what the plain engine finds, whoever else is under way.

On a machine without a GPU its kernels run through Triton's interpreter, in a process of their own: it must be switched
on before Triton is loaded. On a GPU they run as they are, from captured graphs, and in bfloat16 too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import pytest
import torch

from heedful.config.settings import ModelConfig
from heedful.errors import CheckpointError, DataError
from heedful.model.transformer import Transformer
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.search import Hypothesis
from heedful.translate.torch_engine import TorchEngine
from tests.interpreted import DEVICE, assert_holds_in_the_interpreter, on_a_gpu, on_kernels, without_kernels

if TYPE_CHECKING:
    from heedful.fast.cuda.engine import CudaEngine

pytest.importorskip("triton")

DTYPE = torch.float64 if DEVICE.type == "cpu" else torch.float32
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}[DTYPE]
VOCAB_SIZE = 24
SMALL = ModelConfig(d_model=8, d_ff=8, num_layers=1, num_heads=1)  # the interpreter takes a millisecond for a head
CONFIGS = {
    "paper": ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=2),
    "d_k is not d_v": ModelConfig(d_model=8, d_ff=8, num_layers=1, num_heads=2, d_k=3, d_v=5),
    "learned positions": ModelConfig(
        d_model=8, d_ff=8, num_layers=1, num_heads=1, positions="learned", max_positions=9
    ),
}
BEAM = SearchOptions(beam_size=3, max_extra=3, n_best=2)
GREEDY = SearchOptions(beam_size=1, max_extra=3)


@pytest.mark.slow
@without_kernels
def test_the_searches_hold_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


@pytest.fixture(autouse=True)
def few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that sentences wait for one another, and some are too long for the first search, or for any."""
    from heedful.fast.cuda import captured_search as captured
    from heedful.fast.cuda import requests as stream

    for module in (captured, stream):
        monkeypatch.setattr(module, "CAPACITIES", (8, 12))
    monkeypatch.setattr(captured, "ENCODER_ROWS", (12, 24))
    monkeypatch.setattr(captured, "MAX_ROWS", 12)
    monkeypatch.setattr(stream, "FEW_STEPS", 3)


def random_model(seed: int, *, config: ModelConfig = SMALL, eos: float = 1.0) -> Transformer:
    """Weights large enough for it to have opinions; `eos` makes endings likely or not."""
    torch.manual_seed(seed)
    model = Transformer(config, VOCAB_SIZE).double().eval()
    with torch.no_grad():
        last = model.decoder[-1].get_submodule("feed_forward_norm.norm")
        assert isinstance(last, torch.nn.LayerNorm)
        direction_D = torch.ones(config.d_model, dtype=torch.float64)
        model.embedding.weight_VD.mul_(3.0)
        model.embedding.weight_VD[0] += eos * direction_D / config.d_model
        last.bias.add_(direction_D)
    return model


def random_requests(number: int, *, seed: int = 1, lengths: Sequence[int] = (0, 1, 2, 4)) -> list[Request]:
    draw = random.Random(seed)
    return [Request([draw.randrange(1, VOCAB_SIZE) for _ in range(draw.choice(lengths))]) for _ in range(number)]


def lane_engine(model: Transformer, dtype: torch.dtype = DTYPE) -> CudaEngine:
    """An engine that takes the fast road, also on a CPU."""
    from heedful.fast.cuda.engine import CudaEngine

    return CudaEngine(model.to(DEVICE, DTYPE), dtype=dtype)


def plain_results(model: Transformer, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
    return list(TorchEngine(model.to("cpu", torch.float64)).translate(requests, options))


def assert_same(found: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]]) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in each] for each in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert one.score == pytest.approx(other.score, abs=TOLERANCE)
        assert one.log_prob == pytest.approx(other.log_prob, abs=TOLERANCE)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=TOLERANCE)


@on_kernels
@pytest.mark.parametrize(
    ("name", "options"),
    [("paper", BEAM), ("d_k is not d_v", GREEDY), ("learned positions", SearchOptions(4, alpha=0.0, max_extra=1))],
)
def test_the_fast_road_finds_what_the_plain_engine_finds(name: str, options: SearchOptions) -> None:
    model, requests = random_model(1, config=CONFIGS[name]), random_requests(4, lengths=(1, 2, 4))
    expected = plain_results(model, requests, options)
    assert_same(list(lane_engine(model).translate(requests, options)), expected)


@on_kernels
def test_long_sentences_wait_for_a_longer_lane_or_take_the_plain_road() -> None:
    model, requests = random_model(2), [Request([3, 4]), Request([5] * 13), Request([6] * 7), Request([7, 8, 9])]
    expected = plain_results(model, requests, BEAM)
    assert_same(list(lane_engine(model).translate(requests, BEAM)), expected)


@on_kernels
def test_results_do_not_depend_on_the_order_and_come_in_order() -> None:
    model, requests = random_model(3), random_requests(5)
    engine = lane_engine(model)
    expected = list(engine.translate(requests, BEAM))
    order = [4, 1, 0, 3, 2]
    assert_same(list(engine.translate([requests[i] for i in order], BEAM)), [expected[i] for i in order])
    assert_same([next(engine.translate(requests[2:3], BEAM))], expected[2:3])


@on_kernels
def test_prefixes_are_kept_and_different_in_each_sentence() -> None:
    draw, model = random.Random(4), random_model(4)
    requests = [
        Request(request.source_ids, [draw.randrange(1, VOCAB_SIZE) for _ in range(draw.randrange(3))])
        for request in random_requests(4)
    ]
    expected = plain_results(model, requests, BEAM)
    engine = lane_engine(model)
    assert_same(list(engine.translate(requests, BEAM)), expected)
    free = [Request(request.source_ids) for request in requests]  # in slots that had prefixes
    expected = plain_results(model, free, BEAM)
    assert_same(list(engine.translate(free, BEAM)), expected)


@on_kernels
def test_scores_belong_to_their_hypotheses_where_a_sentence_has_fewer_of_them() -> None:
    """A prefix as long as the limit leaves one way to go on."""
    model, requests = random_model(4), [Request([3, 4]), Request([3, 4], [5, 6, 7, 8, 9]), Request([7])]
    expected = plain_results(model, requests, BEAM)
    assert len({len(hypotheses) for hypotheses in expected}) > 1
    assert_same(list(lane_engine(model).translate(requests, BEAM)), expected)
    assert_same(list(lane_engine(model).translate(requests[::-1], BEAM)), expected[::-1])


@on_kernels
def test_an_older_lane_is_right_after_a_newer_one_was_made() -> None:
    """What a captured graph reads lives as long as its search, whatever is made and filled after it."""
    model, requests = random_model(7), random_requests(3)
    expected = plain_results(model, requests, GREEDY)
    engine = lane_engine(model)
    for options in (GREEDY, BEAM, GREEDY):
        found = list(engine.translate(requests, options))
        torch.cuda.empty_cache()
        fill = [torch.full((n,), 1e9, device=DEVICE) for n in (16, 64, 128, 256, 1024) for _ in range(8)]
        if options is GREEDY:
            assert_same(found, expected)
        del fill


@on_kernels
def test_a_search_within_a_search_has_a_lane_of_its_own() -> None:
    model, requests = random_model(5), random_requests(4)
    expected = plain_results(model, requests, GREEDY)
    engine = lane_engine(model)
    for number, found in enumerate(engine.translate(requests, GREEDY)):
        assert_same([found], expected[number : number + 1])
        if number == 1:
            assert_same(list(engine.translate(requests[:2], GREEDY)), expected[:2])


@on_kernels
def test_who_stops_listening_leaves_an_empty_lane() -> None:
    model, requests = random_model(6), random_requests(4)
    expected = plain_results(model, requests, GREEDY)
    engine = lane_engine(model)
    abandoned = engine.translate(requests, GREEDY)
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]
    assert_same(list(engine.translate(requests, GREEDY)), expected)


@on_kernels
def test_no_more_than_a_window_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.fast.cuda import requests as stream

    monkeypatch.setattr(stream, "WINDOW", 3)
    model, given = random_model(7), random_requests(7)
    taken = 0

    def counted() -> Iterator[list[Request]]:
        nonlocal taken
        for request in given:
            taken += 1
            yield [request]

    found: list[list[Hypothesis]] = []
    for hypotheses in lane_engine(model).translate_windows(counted(), GREEDY):
        assert taken - len(found) <= 3
        found.append(hypotheses)
    assert_same(found, plain_results(model, given, GREEDY))


@on_kernels
def test_token_scores_are_left_out_where_nobody_wants_them() -> None:
    model, requests = random_model(8), random_requests(2)
    options = SearchOptions(beam_size=2, max_extra=3, token_scores=False)
    expected = plain_results(model, requests, options)
    found = list(lane_engine(model).translate(requests, options))
    assert [each[0].ids for each in found] == [each[0].ids for each in expected]
    assert all(each[0].token_log_probs == () for each in found)


@on_kernels
def test_a_prefix_longer_than_the_limit_is_an_error_and_the_lane_is_free_again() -> None:
    model, requests = random_model(9), random_requests(2)
    engine = lane_engine(model)
    with pytest.raises(DataError, match="prefix of 9 tokens"):
        list(engine.translate([*requests, Request([1, 2], [3] * 9)], GREEDY))
    found = list(engine.translate(requests, GREEDY))
    assert_same(found, plain_results(model, requests, GREEDY))


@on_kernels
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, in the interpreter
@pytest.mark.parametrize("options", [BEAM, GREEDY])
def test_a_model_that_has_diverged_is_named_and_not_waited_for(options: SearchOptions) -> None:
    broken = random_model(1)
    torch.nn.init.constant_(broken.embedding.weight_VD, float("nan"))
    with pytest.raises(CheckpointError, match="NaN"):
        list(lane_engine(broken).translate(random_requests(2), options))


@on_kernels
def test_equal_tokens_stand_in_their_order() -> None:
    model = random_model(1)
    with torch.no_grad():
        model.embedding.weight_VD[5:9] = model.embedding.weight_VD[4].clone()  # five words that are one
    requests = random_requests(3)
    expected = plain_results(model, requests, GREEDY)
    assert_same(list(lane_engine(model).translate(requests, GREEDY)), expected)


@on_kernels
def test_searches_are_kept_and_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.fast.cuda.captured_search import CapturedSearches
    from heedful.translate.search import BeamRule

    searches = CapturedSearches(random_model(1).to(DEVICE, DTYPE), DTYPE)
    search = searches.take(BeamRule(2, 0.6), 2, 16, with_tokens=False)
    searches.give_back(search)
    assert searches.take(BeamRule(2, 0.6), 2, 16, with_tokens=False) is search
    searches.give_back(search)
    searches.budget = 2.5 * 2 * searches.decoder.slot_bytes(2, 16)
    other = searches.take(BeamRule(2, 0.5), 2, 16, with_tokens=False)
    searches.give_back(other)
    third = searches.take(BeamRule(2, 0.4), 2, 16, with_tokens=False)  # the first one gives way
    searches.give_back(third)
    assert searches.take(BeamRule(2, 0.5), 2, 16, with_tokens=False) is other
    assert searches.take(BeamRule(2, 0.6), 2, 16, with_tokens=False) is not search


@on_kernels
def test_a_lane_is_made_where_all_others_gave_way() -> None:
    model, requests = random_model(1), random_requests(2)
    expected = [plain_results(model, requests, options) for options in (GREEDY, BEAM, GREEDY)]
    engine = lane_engine(model)
    engine.searches.budget = 0.0  # there is never room for two
    for options, hypotheses in zip((GREEDY, BEAM, GREEDY), expected, strict=True):
        assert_same(list(engine.translate(requests, options)), hypotheses)


def test_the_memory_of_other_graphs_is_not_free_to_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a model is trained, its graphs hold most of a GPU: reserved, and between two replays not allocated."""
    from heedful.fast.cuda import captured_search as module

    gib = 2**30
    reserved = {"by graphs": 18 * gib, "unused": 2 * gib}
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 1 * gib + sum(reserved.values()))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 1 * gib)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: reserved.pop("unused"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (23 * gib - 1 * gib - sum(reserved.values()), 24 * gib))
    assert module._budget(torch.device("cuda")) == 2 * gib  # half of the 2 GiB that were free and the 2 that are now


@on_a_gpu
def test_threads_may_translate_at_once() -> None:
    requests, engines = random_requests(6), [lane_engine(random_model(1)) for _ in range(2)]
    jobs = [(each, SearchOptions(width)) for width in (1, 2, 3) for each in engines]
    with ThreadPoolExecutor(6) as threads:
        found = threads.map(lambda job: list(job[0].translate(requests, job[1])), jobs)
        for (_, options), hypotheses in zip(jobs, found, strict=True):
            assert_same(hypotheses, plain_results(random_model(1), requests, options))


@on_a_gpu
def test_searches_leave_what_the_graphs_of_training_hold() -> None:
    from heedful.fast.cuda import captured_search as module

    graph, free = torch.cuda.CUDAGraph(), torch.cuda.mem_get_info()[0]
    with torch.cuda.graph(graph):
        torch.empty(int(0.95 * free), dtype=torch.uint8, device=DEVICE)[:1].zero_()
    assert module._budget(DEVICE) <= torch.cuda.mem_get_info()[0] / 2
    del graph
    torch.cuda.empty_cache()


@on_a_gpu
def test_bfloat16_finds_nearly_the_same_scores() -> None:
    model, requests = random_model(1), random_requests(14)
    expected = plain_results(model, requests, GREEDY)
    found = list(lane_engine(model, torch.bfloat16).translate(requests, GREEDY))
    alike = [one[0].ids == other[0].ids for one, other in zip(found, expected, strict=True)]
    assert sum(alike) >= 7
    for one, other, same in zip(found, expected, alike, strict=True):
        assert not same or one[0].log_prob == pytest.approx(other[0].log_prob, abs=0.5)
