"""What every model can do: encode, decode, give logits. Training, search, scores and the server know no more of one.

A family of models derives from `TranslationModel`. It names itself (`family`), has a struct of settings (`settings`,
whose `d_model` also sets the learning rate of equation 3), and says how to `encode`, to `decode` and to give `logits`.
That is enough for everything; `new_decoder` is for speed, and the rest for what a family has besides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from heedful.config.settings import FamilyConfig
from heedful.errors import ConfigError
from heedful.model.attention import Recorder
from heedful.model.layout import offsets_of
from heedful.model.packed import Packed, pack_target

RecordedAttention: TypeAlias = Mapping[str, list[Recorder]]
"""By kind (encoder, decoder, cross): what each layer recorded, one entry for each pass.

A pass's weights are heads × rows that look × rows looked at, with as many heads in every layer of a kind. Queries, keys
and values may be left out: `inspection/` then shows the weights without the calculation.
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder's output z = (z_1, …, z_n) of every sentence, packed, and where each sentence begins."""

    hidden_SD: Tensor
    offsets_N: Tensor

    def sentence(self, number: int) -> Memory:
        """Return the memory of one sentence."""
        begin, end = self.offsets_N[number : number + 2].tolist()
        return Memory(self.hidden_SD[begin:end], self.offsets_N[number : number + 2] - begin)

    @classmethod
    def joined(cls, memories: Sequence[Memory]) -> Memory:
        """Join memories of one sentence each. `ReplayDecoder` calls both: a memory of your own then overrides both."""
        hidden = [memory.hidden_SD for memory in memories]
        lengths_N = np.array([len(hidden_SD) for hidden_SD in hidden])
        return Memory(torch.cat(hidden), offsets_of(lengths_N).to(hidden[0].device))


class State(Protocol):
    """N slots of W hypotheses each, which a decoder moves on. A slot holds one sentence, at a position of its own."""

    def select(self, parents_NW: Tensor) -> None:
        """Hypothesis w of each slot goes on from what was hypothesis `parents_NW[·, w]` of the same slot."""

    def admit(self, memory: Memory, slots: Sequence[int], *, longest: int) -> None:
        """Let new sentences, of at most `longest` source tokens each, into these slots, at position 0."""

    def clear(self, slots: Sequence[int]) -> None:
        """Begin these slots anew, with no sentence in them."""

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only, renumbered in this order."""


S = TypeVar("S", bound=State)


class Decoder(Protocol[S]):
    """A model prepared for one token at a time. It sees the weights as they were when it was made."""

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> S:
        """A state with no sentence in it; with room for so many source positions to begin with."""

    def step(self, ids_R: Tensor, state: S, /) -> Tensor:
        """The last token of each row → the logits of the next one. At position 0 the token is ignored (§3.1)."""


class TranslationModel(nn.Module, ABC):
    """A family of models: from packed sentences to the logits of each next token."""

    family: ClassVar[str]  # its name in `model.family`
    settings: ClassVar[type[FamilyConfig]]  # what stands under [model]

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size

    @abstractmethod
    def encode(self, source: Packed) -> Memory:
        """Source tokens → memory."""

    @abstractmethod
    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """The target shifted right, and the memory → a hidden state for each target token."""

    @abstractmethod
    def logits(self, hidden_TD: Tensor) -> Tensor:
        """The scores of all V next tokens, before the softmax."""

    def forward(self, source: Packed, target_in: Packed) -> Tensor:
        """Source and shifted target → logits. Training calls the three parts, so a family overrides those."""
        return self.logits(self.decode(target_in, self.encode(source)))

    def new_decoder(self) -> Decoder[Any]:
        """The model one token at a time; a family that can do better than recomputing everything says how."""
        return ReplayDecoder(self)

    def recorded_attention(self) -> AbstractContextManager[RecordedAttention]:
        """Within this context attention is recorded; a family without attention records none."""
        return nullcontext({})

    def projection(self) -> Tensor | None:
        """The matrix of `logits`, where those are one product with it, and `projection_bias` added."""
        return None

    def projection_bias(self) -> Tensor | None:
        """What `logits` adds to that product for each token of the vocabulary, if anything."""
        return None

    def auxiliary_loss(self) -> Tensor | None:
        """What the last forward pass adds to the sum of the loss over its tokens; reading clears it."""
        return None

    def scale_by_depth(self) -> None:
        """Divide the weights of layer l by √l, where there are layers: `train.depth_scaled_init`, not in the paper."""
        raise ConfigError(
            f"train.depth_scaled_init = true is not implemented by model.family = {self.family!r}; leave it out"
        )

    @property
    def position_limit(self) -> int:
        """How many tokens a target sentence may have, its eos included."""
        return self.config.position_limit

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """In what numbers it computes."""
        return next(self.parameters()).dtype


class ReplayDecoder:
    """Decodes any model by computing the whole prefix anew in each step: slow, and right."""

    def __init__(self, model: TranslationModel) -> None:
        assert not model.training, "decoding is for a model in eval mode; dropout is for training"
        self.model = model

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> ReplayState:
        """A state with no sentence in it."""
        return ReplayState(num_slots, num_beams)

    @torch.no_grad()
    def step(self, ids_R: Tensor, state: ReplayState) -> Tensor:
        """All tokens so far → the logits of the next one; those of slots without a sentence are zero."""
        state.append(ids_R, self.model.position_limit)
        logits_RV = torch.zeros(ids_R.numel(), self.model.vocab_size, dtype=self.model.dtype, device=ids_R.device)
        if rows := list(state.rows()):
            numbers, prefixes, memories = zip(*rows, strict=True)
            logits_RV[list(numbers)] = self._next(prefixes, memories)
        return logits_RV

    def _next(self, prefixes: Sequence[list[int]], memories: Sequence[Memory]) -> Tensor:
        memory = type(memories[0]).joined(memories)
        lengths_N = np.array([len(prefix) for prefix in prefixes])
        ids_T = np.concatenate([np.array(prefix, dtype=np.int64) for prefix in prefixes])
        target_in = pack_target(ids_T, lengths_N, memory.offsets_N.diff().cpu().numpy().astype(np.int64))
        last_N = torch.from_numpy(lengths_N.cumsum() - 1).to(self.model.device)
        return self.model.logits(self.model.decode(target_in.to(self.model.device), memory)[last_N])


class ReplayState:
    """What has been said so far: the tokens of each hypothesis, and the memory of each sentence."""

    def __init__(self, num_slots: int, num_beams: int) -> None:
        self.num_beams = num_beams
        self.memories: list[Memory | None] = [None] * num_slots
        self.prefixes: list[list[list[int]]] = [[[] for _ in range(num_beams)] for _ in range(num_slots)]

    def append(self, ids_R: Tensor, limit: int) -> None:
        """The tokens that the search has chosen; the model ignores the first one of a sentence.

        What stands beyond the limit belongs to hypotheses that are done, which nobody reads.
        """
        prefixes = [prefix for hypotheses in self.prefixes for prefix in hypotheses]
        for prefix, token in zip(prefixes, ids_R.tolist(), strict=True):
            if len(prefix) < limit:
                prefix.append(token)

    def rows(self) -> Iterator[tuple[int, list[int], Memory]]:
        """The row of each hypothesis of a sentence, its tokens, and the sentence's memory."""
        for slot, memory in enumerate(self.memories):
            for beam, prefix in enumerate(self.prefixes[slot]):
                if memory is not None:
                    yield slot * self.num_beams + beam, prefix, memory

    def select(self, parents_NW: Tensor) -> None:
        """Hypotheses go on from others of their slot."""
        parents = zip(self.prefixes, parents_NW.tolist(), strict=True)
        self.prefixes = [[list(hypotheses[p]) for p in places] for hypotheses, places in parents]

    def admit(self, memory: Memory, slots: Sequence[int], *, longest: int) -> None:
        """New sentences in these slots."""
        self.clear(slots)
        for number, slot in enumerate(slots):
            self.memories[slot] = memory.sentence(number)

    def clear(self, slots: Sequence[int]) -> None:
        """No sentences in these slots."""
        for slot in slots:
            self.memories[slot], self.prefixes[slot] = None, [[] for _ in range(self.num_beams)]

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only."""
        self.memories = [self.memories[slot] for slot in slots]
        self.prefixes = [self.prefixes[slot] for slot in slots]
