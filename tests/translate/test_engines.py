"""The torch engine: what comes out for a request depends on that request alone, and its scores are the model's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.config.settings import ModelConfig
from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError
from heedful.model.decoding import CachedDecoder, CachedState
from heedful.model.interface import Memory, ReplayDecoder
from heedful.model.transformer import Transformer
from heedful.translate import engine as engines
from heedful.translate import torch_engine
from heedful.translate.engine import Computing, Engine, Request, Sampling, SearchOptions
from heedful.translate.open_engine import search_engine
from heedful.translate.search import BeamRule, Hypothesis
from heedful.translate.torch_engine import TorchEngine
from tests.table_models import beam_search

VOCAB_SIZE = 24
CONFIG = ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=2)
BEAM = SearchOptions(beam_size=3, max_extra=6, n_best=3)


def random_model(seed: int, *, config: ModelConfig = CONFIG, eos: float = 1.0) -> Transformer:
    """A model with random weights that are large enough for it to have opinions; `eos` makes endings likely or not."""
    torch.manual_seed(seed)
    model = Transformer(config, VOCAB_SIZE).double().eval()
    with torch.no_grad():
        last = model.decoder[-1].get_submodule("feed_forward_norm.norm")
        direction_D = torch.ones(config.d_model, dtype=torch.float64)
        model.embedding.weight_VD.mul_(3.0)
        model.embedding.weight_VD[0] += eos * direction_D / config.d_model
        assert isinstance(last, torch.nn.LayerNorm)
        last.bias.add_(direction_D)
    return model


@pytest.fixture(scope="module")
def model() -> Transformer:
    return random_model(1)


def random_requests(number: int, *, seed: int = 1) -> list[Request]:
    draw = random.Random(seed)
    lengths = [draw.choice([0, 1, 2, 5, 9, 14]) for _ in range(number)]
    return [Request([draw.randrange(1, VOCAB_SIZE) for _ in range(length)]) for length in lengths]


def assert_same(found: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]], tolerance: float) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in each] for each in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert one.score == pytest.approx(other.score, abs=tolerance)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=tolerance)


def test_the_engine_finds_what_beam_search_finds_for_each_sentence_alone(model: Transformer) -> None:
    requests, engine = random_requests(9), TorchEngine(model)
    for request, found in zip(requests, engine.translate(requests, BEAM), strict=True):
        decoder = model.new_decoder()
        (memory,), longest = engine.encode([request.source_ids])
        state = decoder.empty(1, 3)
        state.admit(memory, [0], longest=longest)
        limit = len(request.source_ids) + 6
        expected = beam_search(decoder.step, state, max_lengths=[limit], beam_size=3, alpha=0.6, n_best=3)
        assert_same([found], expected, 1e-9)


def test_a_decoder_that_computes_every_prefix_anew_finds_the_same(model: Transformer) -> None:
    requests, samples = random_requests(12), SearchOptions(max_extra=6, sampling=Sampling(seed=3))
    for options in (BEAM, SearchOptions(beam_size=1, max_extra=6), samples):
        replay = TorchEngine(model, batch_tokens=60, decoder_of=ReplayDecoder).translate(requests, options)
        assert_same(list(replay), list(TorchEngine(model).translate(requests, options)), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("options", [BEAM, SearchOptions(beam_size=1, max_extra=6), SearchOptions(max_extra=0)])
@pytest.mark.parametrize("batch_tokens", [1, 60, 300])
def test_results_do_not_depend_on_the_batch(model: Transformer, options: SearchOptions, batch_tokens: int) -> None:
    requests = random_requests(40)
    expected = list(TorchEngine(model).translate(requests, options))
    order = random.Random(2).sample(range(40), 40)
    shuffled = TorchEngine(model, batch_tokens=batch_tokens).translate([requests[i] for i in order], options)
    assert_same(list(shuffled), [expected[i] for i in order], 1e-9)


@pytest.mark.parametrize("options", [BEAM, SearchOptions(beam_size=1, max_extra=6)])
def test_results_do_not_depend_on_how_often_the_device_is_asked_who_is_done(options: SearchOptions) -> None:
    config = ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=2, positions="learned", max_positions=16)
    model, requests = random_model(1, config=config), random_requests(40)
    expected = list(TorchEngine(model).translate(requests, options))
    patient = TorchEngine(model, batch_tokens=100)
    patient.check_steps = 5
    assert_same(list(patient.translate(requests, options)), expected, 1e-9)


@pytest.mark.slow
def test_float32_gives_the_same_hypotheses_in_any_batch(model: Transformer) -> None:
    single, requests = random_model(1).float(), random_requests(40)
    expected = list(TorchEngine(model).translate(requests, BEAM))
    for open_engine in (TorchEngine, search_engine):
        for batch_tokens in (50, 8192):
            found = open_engine(single, batch_tokens=batch_tokens).translate(requests, BEAM)
            assert_same(list(found), expected, 1e-4)


def test_greedy_search_is_a_beam_of_one(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, one = random_requests(20), SearchOptions(beam_size=1, max_extra=6)
    greedy = list(TorchEngine(model).translate(requests, one))
    monkeypatch.setattr(torch_engine, "greedy_rule", lambda *, alpha: BeamRule(1, alpha))
    assert_same(list(TorchEngine(model).translate(requests, one)), greedy, 1e-12)


def test_the_score_of_a_hypothesis_is_the_forced_score_of_its_tokens(model: Transformer) -> None:
    requests, engine = random_requests(20), TorchEngine(model)
    found = list(engine.translate(requests, BEAM))
    pairs = [(r.source_ids, h.ids) for r, hypotheses in zip(requests, found, strict=True) for h in hypotheses]
    for batch_tokens in (1, 50, 10_000):
        forced = list(TorchEngine(model, batch_tokens=batch_tokens).score(pairs))
        for scores, hypothesis in zip(forced, chain(*found), strict=True):
            assert scores == pytest.approx(hypothesis.token_log_probs, abs=1e-9)
            assert sum(scores) == pytest.approx(hypothesis.log_prob, abs=1e-9)
            penalty = ((5 + len(hypothesis.ids) + 1) / 6) ** 0.6
            assert sum(scores) / penalty == pytest.approx(hypothesis.score, abs=1e-9)


def test_all_kinds_of_ending_are_found_in_these_tests(model: Transformer) -> None:
    requests = random_requests(40)
    found = list(TorchEngine(model).translate(requests, BEAM))
    at_limit = [len(h[0].ids) == len(r.source_ids) + 6 for r, h in zip(requests, found, strict=True)]
    assert 0 < sum(at_limit) < len(at_limit)


def test_an_output_has_at_most_its_own_sources_length_and_max_extra() -> None:
    endless, requests = random_model(3, eos=-400.0), random_requests(12)
    for options in (BEAM, SearchOptions(beam_size=1, max_extra=6), SearchOptions(max_extra=6, sampling=Sampling())):
        found = TorchEngine(endless).translate(requests, options)
        lengths = [len(hypotheses[0].ids) for hypotheses in found]
        assert lengths == [len(request.source_ids) + 6 for request in requests]


def test_learned_positions_bound_the_output() -> None:
    config = ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=2, positions="learned", max_positions=12)
    endless, requests = random_model(3, config=config, eos=-400.0), [Request([5] * 9), Request([5])]
    found = list(TorchEngine(endless).translate(requests, SearchOptions(max_extra=6)))
    assert [len(hypotheses[0].ids) for hypotheses in found] == [11, 7]
    with pytest.raises(DataError, match="learned positions"):
        list(TorchEngine(endless).translate([Request([5] * 12)], SearchOptions()))


def test_prefixes_are_kept_and_different_in_each_sentence(model: Transformer) -> None:
    draw = random.Random(4)
    requests = [
        Request(request.source_ids, [draw.randrange(1, VOCAB_SIZE) for _ in range(draw.randrange(6))])
        for request in random_requests(20)
    ]
    for options in (BEAM, SearchOptions(beam_size=1, max_extra=6), SearchOptions(max_extra=6, sampling=Sampling())):
        engine = TorchEngine(model, batch_tokens=100)
        for request, hypotheses in zip(requests, engine.translate(requests, options), strict=True):
            for hypothesis in hypotheses:
                assert list(hypothesis.ids[: len(request.prefix_ids)]) == request.prefix_ids
            (forced,) = engine.score([(request.source_ids, hypotheses[0].ids)])
            assert sum(forced) == pytest.approx(hypotheses[0].log_prob, abs=1e-9)


@pytest.mark.parametrize("options", [BEAM, SearchOptions(beam_size=1, max_extra=6)])
def test_a_prefix_changes_no_other_sentence(model: Transformer, options: SearchOptions) -> None:
    """Those with a long one come to where some have none, and those with none to where some have a long one."""
    prefixes = [[], [3, 9, 4, 7], [], [5], [8, 2, 6, 3, 9, 4], []]
    requests = [Request([1 + n, 5, 2 + n], prefixes[n % 6]) for n in range(18)]
    alone = [next(TorchEngine(model).translate([request], options)) for request in requests]
    for batch_tokens in (1, 24, 48, 10_000):
        together = TorchEngine(model, batch_tokens=batch_tokens).translate(requests, options)
        assert_same(list(together), alone, 1e-9)


def test_a_prefix_longer_than_the_limit_is_an_error_of_one_line(model: Transformer) -> None:
    with pytest.raises(DataError, match=r"prefix of 9 tokens .*\(8 tokens") as error:
        list(TorchEngine(model).translate([Request([1, 2], [3] * 9)], SearchOptions(max_extra=6)))
    assert "\n" not in str(error.value)


def test_samples_follow_from_the_seed_and_the_number_of_the_request(model: Transformer) -> None:
    requests = random_requests(40)
    options = SearchOptions(max_extra=6, n_best=2, sampling=Sampling(temperature=1.5, top_k=12, top_p=0.95, seed=5))
    expected = list(TorchEngine(model).translate(requests, options))
    assert_same(list(TorchEngine(model, batch_tokens=40).translate(requests, options)), expected, 1e-9)
    other = SearchOptions(max_extra=6, n_best=2, sampling=Sampling(temperature=1.5, top_k=12, top_p=0.95, seed=6))
    assert list(TorchEngine(model).translate(requests, other)) != expected
    assert any(two[0].ids != two[1].ids for two in expected)


def test_requests_are_read_a_window_ahead_and_no_further(model: Transformer) -> None:
    asked = 0

    def endless() -> Iterator[Request]:
        nonlocal asked
        while True:
            asked += 1
            yield Request([1 + asked % 7])

    results = TorchEngine(model).translate(endless(), SearchOptions(beam_size=1, max_extra=2))
    next(results)
    assert asked == engines.FIRST_WINDOW
    for _ in range(engines.FIRST_WINDOW):
        next(results)
    assert asked == 3 * engines.FIRST_WINDOW


def test_finished_sentences_leave_and_the_last_one_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    step = CachedDecoder.step

    def counted(self: CachedDecoder, ids_R: Tensor, state: CachedState) -> Tensor:
        rows.append(ids_R.numel())
        return step(self, ids_R, state)

    monkeypatch.setattr(CachedDecoder, "step", counted)
    requests = [Request([i] * 5, [4] * 9 if i < 8 else [4] * 60) for i in range(1, 9)]  # the prefix makes one long
    list(TorchEngine(random_model(1, eos=20.0)).translate(requests, SearchOptions(beam_size=2, max_extra=60)))
    assert rows[0] == 16
    assert rows[-1] == 2
    assert sum(rows) < 0.6 * 16 * len(rows)


def test_waiting_sentences_enter_while_others_are_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    positions: list[list[int]] = []
    admit = CachedState.admit

    def watched(self: CachedState, memory: Memory, slots: Sequence[int], *, longest: int) -> None:
        admit(self, memory, slots, longest=longest)
        positions.append(self.position_N.tolist())

    monkeypatch.setattr(CachedState, "admit", watched)
    requests = [Request([5] * 4, [4] * (i % 7)) for i in range(1, 30)]
    engine = TorchEngine(random_model(1, eos=20.0), batch_tokens=60)
    list(engine.translate(requests, SearchOptions(beam_size=2, max_extra=10)))
    assert sum(min(each) == 0 < max(each) for each in positions) > 3


def test_an_ensemble_decides_by_the_mean_of_the_probabilities(model: Transformer) -> None:
    other, requests = random_model(2), random_requests(12)
    engine = TorchEngine(model, other)
    found = list(engine.translate(requests, BEAM))
    pairs = [(request.source_ids, hypotheses[0].ids) for request, hypotheses in zip(requests, found, strict=True)]
    for forced, hypotheses in zip(engine.score(pairs), found, strict=True):
        assert forced == pytest.approx(hypotheses[0].token_log_probs, abs=1e-9)
    one, two = [torch.tensor(next(TorchEngine(each).score(pairs[:1]))) for each in (model, other)]
    mean = ((one.exp() + two.exp()) / 2).log()
    assert found[0][0].token_log_probs == pytest.approx(mean.tolist(), abs=1e-6)
    twice, once = TorchEngine(model, model), TorchEngine(model)
    assert_same(list(twice.translate(requests, BEAM)), list(once.translate(requests, BEAM)), 1e-9)


def test_models_of_different_vocabularies_are_refused(model: Transformer) -> None:
    with pytest.raises(ConfigError, match="24, 32"):
        TorchEngine(model, Transformer(CONFIG, 32).eval())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size = 0"),
        ({"n_best": 5}, "n_best = 5"),
        ({"n_best": 0}, "n_best = 0"),
        ({"alpha": -1.0}, "alpha = -1"),
        ({"alpha": float("nan")}, "alpha = nan"),
        ({"alpha": 1e9}, "alpha = 1000000000.0: expected float <= 100"),
        ({"max_extra": -1}, "max_extra = -1"),
        ({"beam_size": "4"}, "beam_size = '4': expected int, got str"),
        ({"beam_size": 2.0}, "beam_size = 2.0: expected int, got float"),
        ({"beam_size": True}, "beam_size = True: expected int, got bool"),
        ({"alpha": None}, "alpha = None: expected float, got null"),
        ({"sampling": 0.8}, "sampling = 0.8: expected object"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**options)


def test_options_are_plain_numbers_however_they_were_counted() -> None:
    options = SearchOptions(np.int64(2), np.float32(1), sampling=Sampling(temperature=1, top_k=np.int32(3)))  # type: ignore[arg-type]
    assert options == SearchOptions(2, 1.0, sampling=Sampling(temperature=1.0, top_k=3))
    assert options.sampling is not None
    assert [type(value) for value in (options.beam_size, options.alpha)] == [int, float]
    assert [type(value) for value in (options.sampling.top_k, options.sampling.temperature)] == [int, float]


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}, {"seed": -1}, {"seed": 2**63}]
)
def test_wrong_sampling_is_named(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Sampling(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [BEAM, SearchOptions(beam_size=1), SearchOptions(sampling=Sampling(top_k=3))])
def test_a_model_that_has_diverged_is_named_and_not_waited_for(options: SearchOptions) -> None:
    broken = random_model(1)
    torch.nn.init.constant_(broken.embedding.weight_VD, float("nan"))
    with pytest.raises(CheckpointError, match="NaN"):
        list(TorchEngine(broken).translate(random_requests(3), options))


def test_too_little_memory_is_one_line_and_the_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, requests = TorchEngine(random_model(1)), random_requests(4)
    pairs = [(request.source_ids, request.source_ids) for request in requests]
    expected, scores = list(engine.translate(requests, BEAM)), list(engine.score(pairs))

    def no_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as full:
        full.setattr(Transformer, "encode", no_memory)
        with pytest.raises(DeviceError, match="do not fit cpu; a smaller beam needs less"):
            list(engine.translate(requests, BEAM))
        with pytest.raises(DeviceError, match="do not fit cpu; free memory there"):
            list(engine.score(pairs))
    assert_same(list(engine.translate(requests, BEAM)), expected, 0.0)
    assert list(engine.score(pairs)) == scores


def test_an_engine_that_lacks_something_cannot_be_made() -> None:
    class Mute(Engine):
        def computing(self, options: SearchOptions) -> Computing:
            return Computing("mute", "cpu")

    with pytest.raises(TypeError, match=r"next_tokens.*score.*translate"):
        Mute()  # type: ignore[abstract]


def test_nothing_in_nothing_out(model: Transformer) -> None:
    assert list(TorchEngine(model).translate([], BEAM)) == []
    assert list(TorchEngine(model).score([])) == []
