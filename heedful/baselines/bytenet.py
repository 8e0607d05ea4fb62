"""ByteNet (Kalchbrenner 2016): dilated convolutions, the decoder's masked, and no attention.

The encoder keeps the resolution of the source: its output has a vector for each place. The decoder stands on it: at
place t it reads the encoder's output at place t, and its own last token. The target may be longer, so the encoder
continues past the source's end, up to a·|s| + b places (the unfolded length). Beyond that the decoder reads zeros.

C are the channels of the convolutions, half of D. U are the places of all unfolded sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.baselines.packed_convolution import DilatedConvolution, Places, centred, masked
from heedful.baselines.padded import sentence_table
from heedful.baselines.slot_state import Beginning, SlotState
from heedful.config.baseline_settings import ByteNetConfig
from heedful.config.settings import FamilyConfig
from heedful.model.dropout import Dropout
from heedful.model.interface import Memory, TranslationModel
from heedful.model.layers import LAYER_NORM_EPS
from heedful.model.packed import Packed


class ByteNet(TranslationModel):
    """Two stacks of residual blocks, the decoder's on top of the encoder's."""

    family, settings = "bytenet", ByteNetConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        assert isinstance(config, ByteNetConfig), "the settings of this family"
        super().__init__(config, vocab_size)
        self.config: ByteNetConfig = config
        self.source_embedding = nn.Embedding(vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(vocab_size, config.d_model)
        self.encoder = blocks(config, centred)
        self.encoder_output = nn.Sequential(Activation(config.d_model), nn.Linear(config.d_model, config.d_model))
        self.decoder = blocks(config, masked)
        self.decoder_output = nn.Sequential(
            Activation(config.d_model),
            nn.Linear(config.d_model, config.d_model),
            Activation(config.d_model),
            Dropout(config.dropout),
        )
        self.classes = nn.Linear(config.d_model, vocab_size, bias=False)

    def encode(self, source: Packed) -> Memory:
        """Source tokens → a vector for each place up to the unfolded length."""
        offsets_N = source.self_layout.query_offsets_N.long()
        unfolded_N = F.pad(self.unfolded(offsets_N.diff()).cumsum(0), (1, 0))
        places = Places.of(unfolded_N, int(unfolded_N[-1]))
        x_UD = places.look_up(self.source_embedding(source.tokens_T), offsets_N)
        for block in self.encoder:
            x_UD = block(x_UD, places)
        return Memory(self.encoder_output(x_UD), unfolded_N)

    def unfolded(self, lengths_N: Tensor) -> Tensor:
        """The unfolded length a |s| + b."""
        return (lengths_N * self.config.length_ratio).round().long() + self.config.length_extra

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """The target shifted right, stacked on the memory → what the last product reads."""
        places = Places.of(target_in.self_layout.query_offsets_N, target_in.tokens_T.numel())
        last_TD = self.target_embedding(target_in.tokens_T).masked_fill((target_in.positions_T == 0)[:, None], 0.0)
        x_TD = last_TD + places.look_up(memory.hidden_SD, memory.offsets_N)
        for block in self.decoder:
            x_TD = block(x_TD, places)
        hidden_TD: Tensor = self.decoder_output(x_TD)
        return hidden_TD

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """The scores of all V next tokens, before the softmax."""
        logits_TV: Tensor = self.classes(hidden_TD)
        return logits_TV

    def projection(self) -> Tensor:
        """The matrix of the last product."""
        return self.classes.weight

    def new_decoder(self) -> ByteNetDecoder:
        """With a cache of what the convolutions look back at."""
        return ByteNetDecoder(self)


class Activation(nn.Sequential):
    """max(0, LayerNorm(x)): the paper normalises before each activation."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.LayerNorm(width, eps=LAYER_NORM_EPS), nn.ReLU())


class ResidualBlock(nn.Module):
    """Figure 3, left: from D to C channels, the dilated convolution, from C to D channels; added to the input."""

    def __init__(self, config: ByteNetConfig, offsets: Iterable[int]) -> None:
        super().__init__()
        width, channels = config.d_model, config.d_model // 2
        self.before = nn.Sequential(Activation(width), nn.Linear(width, channels), Activation(channels))
        self.convolution = DilatedConvolution(channels, tuple(offsets))
        self.after = nn.Sequential(Activation(channels), nn.Linear(channels, width), Dropout(config.dropout))

    def forward(self, x_TD: Tensor, places: Places) -> Tensor:
        y_TD: Tensor = x_TD + self.after(self.convolution(self.before(x_TD), places))
        return y_TD


def blocks(config: ByteNetConfig, offsets: Callable[[int, int], list[int]]) -> nn.ModuleList:
    """Sets of blocks, whose dilation doubles in each set, beginning with 1."""
    dilations = [2**i for i in range(config.dilations)] * config.sets
    return nn.ModuleList(ResidualBlock(config, offsets(config.kernel, dilation)) for dilation in dilations)


class ByteNetDecoder:
    """One token at a time: the inputs that the convolutions look back at are kept, in a ring of the last P places."""

    def __init__(self, model: ByteNet) -> None:
        assert not model.training, "decoding is for a model in eval mode; dropout is for training"
        self.model = model
        self.blocks = [block for block in model.decoder if isinstance(block, ResidualBlock)]
        self.num_places = 1 - min(offset for block in self.blocks for offset in block.convolution.offsets)

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> SlotState:
        """A state with no sentence in it."""
        return SlotState(partial(self._begin, num_beams), num_slots, num_beams, device=self.model.device)

    def _begin(self, num_beams: int, memory: Memory) -> Beginning:
        num_sentences, longest = memory.offsets_N.numel() - 1, int(memory.offsets_N.diff().max())
        memory_NMD = sentence_table(memory.offsets_N, longest, len(memory.hidden_SD)).pad(memory.hidden_SD)
        shape_PWBC = self.num_places, num_beams, len(self.blocks), self.model.config.d_model // 2
        inputs = memory_NMD.new_zeros(()).expand(num_sentences, *shape_PWBC)
        writer = torch.zeros(num_sentences, self.num_places, dtype=torch.int64, device=memory_NMD.device)
        return Beginning(hypothesis={"writer": writer}, sentence={"memory": memory_NMD, "inputs": inputs})

    @torch.no_grad()
    def step(self, ids_R: Tensor, state: SlotState) -> Tensor:
        """The last token of each row → the logits of the next one."""
        x_RD, ring = self._read(ids_R, state), Ring(state)
        for number, block in enumerate(self.blocks):
            ring.write(number, block.before(x_RD))
            taps_RX = torch.cat([ring.read(number, offset) for offset in block.convolution.offsets], dim=-1)
            x_RD = x_RD + block.after(block.convolution.product(taps_RX))
        state.position_N += 1
        return self.model.logits(self.model.decoder_output(x_RD))

    def _read(self, ids_R: Tensor, state: SlotState) -> Tensor:
        """The last token, and the memory at its place."""
        memory_NMD, position_N1 = state.sentence["memory"], state.position_N[:, None]
        slot_N1, last = torch.arange(len(position_N1), device=self.model.device)[:, None], memory_NMD.size(1) - 1
        memory_N1D = memory_NMD[slot_N1, position_N1.clamp(max=last)].masked_fill((position_N1 > last)[..., None], 0.0)
        token_NWD = self.model.target_embedding(ids_R.view(-1, state.num_beams))
        token_NWD = token_NWD.masked_fill((position_N1 == 0)[..., None], 0.0)
        x_RD: Tensor = (token_NWD + memory_N1D).flatten(0, 1)
        return x_RD


class Ring:
    """What the B blocks have read at the last P places of each hypothesis, in one step.

    Selecting a parent moves no cache: `writer` records which hypothesis of the slot wrote each place.
    """

    def __init__(self, state: SlotState) -> None:
        self.inputs_NPWBC, self.writer_NWP = state.sentence["inputs"], state.hypothesis["writer"]
        self.position_N, device = state.position_N, state.position_N.device
        self.slot_N = torch.arange(len(self.position_N), device=device)
        self.writer_NWP[self.slot_N, :, self._place(0)] = torch.arange(state.num_beams, device=device)
        self._rows: dict[int, Tensor] = {}

    def write(self, block: int, x_RC: Tensor) -> None:
        """What a block reads at this place."""
        self.inputs_NPWBC[self.slot_N, self._place(0), :, block] = x_RC.view(len(self.slot_N), -1, x_RC.size(-1))

    def read(self, block: int, offset: int) -> Tensor:
        """What it has read at another place; zero before the first one."""
        if offset not in self._rows:
            self._rows[offset] = self._rows_at(offset)
        return self.inputs_NPWBC.flatten(0, 2)[:, block].index_select(0, self._rows[offset])

    def _place(self, offset: int) -> Tensor:
        return (self.position_N + offset) % self.inputs_NPWBC.size(1)

    def _rows_at(self, offset: int) -> Tensor:
        place_N, (_, num_places, num_beams) = self._place(offset), self.inputs_NPWBC.shape[:3]
        writer_NW = self.writer_NWP[self.slot_N, :, place_N]
        return ((self.slot_N * num_places + place_N)[:, None] * num_beams + writer_NW).flatten()
