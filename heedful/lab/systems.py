"""The systems of Table 2 in the size of the tiny Transformer, each with the rate and dropout that suit it best.

With the vocabulary of Multi30k's first pairs each has as many parameters as the Transformer, within 10 %.
"""

from __future__ import annotations

from msgspec import Struct

from heedful.config.setting_layers import Layer
from heedful.lab.experiment import BASE, merged


class System(Struct, frozen=True):
    """A family of models with its sizes, and its BLEU on newstest2014 in Table 2, if it stands there."""

    change: str
    model: dict[str, object]
    bleu: float | None = None


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
        24.6,  # GNMT
    ),
    "gru": System("GRU, additive attention (Bahdanau)", {"family": "recurrent", "num_layers": 1, "d_model": 152}),
    "one-vector": System(
        "LSTM without attention (Sutskever)",
        {"family": "recurrent", "cell": "lstm", "attention": "none", "num_layers": 2, "d_model": 160},
    ),
    "mixer": System("MLP-Mixer as encoder", {"family": "mixer", "token_width": 128, "max_positions": 129}),
}

TUNED: dict[str, tuple[float, float]] = {}
"""The rate's factor and the dropout of a system, where `heedful lab tuning` found better ones than the usual."""


def settings_of(name: str) -> Layer:
    """Sizes, rate and dropout of a system."""
    sizes: Layer = {"model": SYSTEMS[name].model} if SYSTEMS[name].model else {}
    return merged(sizes, tuned(*TUNED[name])) if name in TUNED else sizes


def tuned(factor: float, dropout: float) -> Layer:
    """What is tuned for each system."""
    return {"train": {"learning_rate_factor": factor}, "model": {"dropout": dropout}}
