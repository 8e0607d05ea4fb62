"""The systems of Table 2 in the size of the tiny Transformer, each with the rate and dropout that suit it best.

With the vocabulary of Multi30k's first pairs each has as many parameters as the Transformer, within 10 %.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from heedful.lab.experiment import BASE, Row, merged


class System(Struct, frozen=True):
    """A family of models with its sizes, and the BLEU on newstest2014 in Table 2, if it or one like it stands there."""

    change: str
    model: dict[str, object]
    bleu: float | None = None
    stands_for: str = ""  # the system of Table 2, where that is another one


TRANSFORMER_BLEU = 27.3
SYSTEMS = {
    BASE: System("Transformer", {}, TRANSFORMER_BLEU),
    "bytenet": System("ByteNet", {"family": "bytenet", "d_model": 96, "sets": 2}, 23.75),
    "convs2s": System(
        "ConvS2S", {"family": "convs2s", "d_model": 112, "num_layers": 4, "tied_embeddings": True}, 25.16
    ),
    "lstm": System(
        "LSTM, attention with input feeding (Luong)",
        {
            "family": "recurrent",
            "cell": "lstm",
            "attention": "general",
            "num_layers": 2,
            "d_model": 144,
            "reverse_source": True,
            "input_feeding": True,
        },
        24.6,
        stands_for="GNMT + RL, another system",
    ),
    "gru": System("GRU, additive attention (Bahdanau)", {"family": "recurrent", "num_layers": 1, "d_model": 152}),
    "one-vector": System(
        "LSTM without attention (Sutskever)",
        {"family": "recurrent", "cell": "lstm", "attention": "none", "num_layers": 2, "d_model": 160},
    ),
    "mixer": System("MLP-Mixer as encoder", {"family": "mixer", "token_width": 128, "max_positions": 129}),
}

TUNED: dict[str, tuple[float, float]] = {}
"""The learning rate, times the usual, and the dropout of a system: what `heedful lab tuning` found best."""


def name_of(system: str) -> str:
    """The row of a system; a tuned one is another row than the usual one of this name."""
    return f"{system}-tuned" if system in TUNED else system


def row_of(system: str) -> Row:
    """A system with what was found best for it."""
    usual = Row(name_of(system), SYSTEMS[system].change, sizes(system))
    return tuned(usual, *TUNED[system]) if system in TUNED else usual


def sizes(system: str) -> dict[str, dict[str, object]]:
    """The settings that make a system what it is."""
    return {"model": SYSTEMS[system].model} if SYSTEMS[system].model else {}


def tuned(row: Row, rate: float, dropout: float) -> Row:
    """A row with another rate and dropout."""
    return replace(row, settings=merged(row.settings, {"model": {"dropout": dropout}}), rate=rate)
