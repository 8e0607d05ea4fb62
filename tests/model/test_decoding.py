"""Decoding token by token, with a cache or without, gives what the whole model gives, whatever the hypotheses."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.config.settings import ModelConfig
from heedful.model.decoding import CachedDecoder, CachedState
from heedful.model.interface import Decoder, Memory, ReplayDecoder
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.model.transformer import Transformer
from tests.switches import SWITCHES

CONFIGS = {
    "paper": ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=4),
    "d_k is not d_v": ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=2, d_k=3, d_v=5),
    "learned positions": ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=4, positions="learned"),
    **{
        name: ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=4, **switch) for name, switch in SWITCHES.items()
    },
}
VOCAB_SIZE = 23
DecoderOf: TypeAlias = Callable[[Transformer], Decoder[Any]]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)


@pytest.fixture(params=list(CONFIGS.values()), ids=list(CONFIGS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return Transformer(request.param, VOCAB_SIZE).double().eval()


def packed(sentences: Sequence[Sequence[int]]) -> Packed:
    return pack_source(np.concatenate(sentences).astype(np.int64), np.array([len(ids) for ids in sentences]))


def encoded(model: Transformer, sentences: Sequence[Sequence[int]]) -> tuple[Memory, int]:
    return model.encode(packed(sentences)), max(map(len, sentences))


def uncached_logits(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """The logits of the token after `target`, by the whole decoder."""
    ids_T, lengths_N = shift_right(np.array([*target, 0])), np.array([len(target) + 1])
    target_in = pack_target(ids_T, lengths_N, np.array([len(source)]))
    return model.logits(model.decode(target_in, model.encode(packed([source]))))[-1]


def cached(model: Transformer) -> CachedDecoder:
    decoder = model.new_decoder()
    assert isinstance(decoder, CachedDecoder)
    return decoder


def started(model: Transformer, sources: Sequence[Sequence[int]], num_beams: int) -> CachedState:
    """A slot for each sentence, and all of them entered."""
    memory, longest = encoded(model, sources)
    state = cached(model).empty(len(sources), num_beams, source_length=longest)
    state.admit(memory, range(len(sources)), longest=longest)
    return state


class Walk:
    """Random hypotheses in the slots of a state, each with the tokens it has come by."""

    def __init__(
        self, model: Transformer, decoder: Decoder[Any], sources: Sequence[Sequence[int]], num_beams: int
    ) -> None:
        self.model, self.decoder, self.num_beams = model, decoder, num_beams
        self.state = decoder.empty(len(sources), num_beams)
        self.sources: list[Sequence[int]] = list(sources)
        self.targets: list[list[list[int]]] = [[] for _ in sources]
        self.ids_R = torch.zeros(len(sources) * num_beams, dtype=torch.int64)
        self.admit(sources, range(len(sources)))

    def admit(self, sources: Sequence[Sequence[int]], slots: Sequence[int]) -> None:
        memory, longest = encoded(self.model, sources)
        self.state.admit(memory, slots, longest=longest)
        for slot, source in zip(slots, sources, strict=True):
            self.sources[slot] = source
            self.targets[slot] = [[] for _ in range(self.num_beams)]

    def keep(self, slots: Sequence[int]) -> None:
        self.state.keep(slots)
        self.sources = [self.sources[slot] for slot in slots]
        self.targets = [self.targets[slot] for slot in slots]
        self.ids_R = self.ids_R.unflatten(0, (-1, self.num_beams))[list(slots)].flatten()

    def step(self) -> None:
        """One step, checked against the whole decoder; then random parents and random next tokens."""
        logits_RV = self.decoder.step(self.ids_R, self.state)
        rows = [(source, target) for source, beam in zip(self.sources, self.targets, strict=True) for target in beam]
        expected_RV = torch.stack([uncached_logits(self.model, *row) for row in rows])
        torch.testing.assert_close(logits_RV, expected_RV, rtol=0, atol=1e-9)
        self._branch(len(self.sources), self.num_beams)

    def _branch(self, num_slots: int, num_beams: int) -> None:
        parents_NW = torch.randint(num_beams, (num_slots, num_beams))
        self.ids_R = torch.randint(VOCAB_SIZE, (num_slots * num_beams,))
        self.state.select(parents_NW)
        token = iter(self.ids_R.tolist())
        self.targets = [
            [[*beam[parent], next(token)] for parent in parents]
            for beam, parents in zip(self.targets, parents_NW.tolist(), strict=True)
        ]


SOURCES = [[3, 4, 5, 6, 0], [7, 0], [8, 9, 10, 0], [0]]


decoders = pytest.mark.parametrize("decoder_of", [cached, ReplayDecoder])


@decoders
@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_token_at_a_time_the_model_says_what_it_says_as_a_whole(
    model: Transformer, decoder_of: DecoderOf, num_beams: int
) -> None:
    walk = Walk(model, decoder_of(model), SOURCES, num_beams)
    for _ in range(6):
        walk.step()


@decoders
@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_sentence_may_enter_while_others_are_half_way(
    model: Transformer, decoder_of: DecoderOf, num_beams: int
) -> None:
    walk = Walk(model, decoder_of(model), SOURCES, num_beams)
    walk.step()
    walk.step()
    walk.admit([[11, 12, 13, 14, 15, 16, 0]], [2])  # longer than any before
    walk.step()
    walk.admit([[5, 0], [17, 18, 19, 0]], [3, 0])
    walk.step()
    walk.keep([2, 0])
    walk.step()


def test_the_cache_grows_past_its_first_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.model.decoding.FIRST_CAPACITY", 2)
    model = Transformer(CONFIGS["paper"], VOCAB_SIZE).double().eval()
    walk = Walk(model, cached(model), SOURCES[:2], 2)
    for _ in range(9):
        walk.step()
    assert isinstance(walk.state, CachedState)
    assert walk.state.capacity == 16


@decoders
def test_slots_beyond_their_end_do_not_disturb_the_others(
    decoder_of: DecoderOf,
) -> None:
    config = ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=4, positions="learned", max_positions=4)
    model = Transformer(config, VOCAB_SIZE).double().eval()
    decoder = decoder_of(model)
    state = decoder.empty(2, 1, source_length=4)
    memory, longest = encoded(model, [[3, 4, 0]])
    for _ in range(6):  # slot 0 is empty, and steps past its last position
        decoder.step(torch.zeros(2, dtype=torch.int64), state)
    state.admit(memory, [1], longest=longest)
    logits_RV = decoder.step(torch.zeros(2, dtype=torch.int64), state)
    torch.testing.assert_close(logits_RV[1], uncached_logits(model, [3, 4, 0], []), rtol=0, atol=1e-9)


def test_the_first_token_is_ignored_because_the_decoder_starts_from_zero() -> None:
    model = Transformer(CONFIGS["paper"], VOCAB_SIZE).eval()
    starts = [cached(model).step(torch.tensor([token]), started(model, [[3, 0]], 1)) for token in (0, 7)]
    torch.testing.assert_close(*starts, rtol=0, atol=0)


def test_beams_share_the_keys_of_their_sentence() -> None:
    model = Transformer(CONFIGS["paper"], VOCAB_SIZE).eval()
    state = started(model, SOURCES, 7)
    assert [tuple(kept.shape) for kept in state.memory_NHMC] == [(4, 4, 5, 8)] * 2
