"""The switches of the Transformer, each as the settings that turn it on."""

from typing import Any

SWITCHES: dict[str, dict[str, Any]] = {
    "no positions": {"positions": "none"},
    "relative positions": {"positions": "relative"},
    "relative positions, unscaled": {"positions": "relative", "compatibility": "unscaled"},
    "rotary positions": {"positions": "rotary"},
    "unscaled": {"compatibility": "unscaled"},
    "additive": {"compatibility": "additive"},
    "one matrix for queries and keys": {"projections": "shared_qk"},
    "one matrix for all three": {"projections": "tied_qkv"},
    "a radius": {"attention_radius": 2},
    "a radius, additive": {"attention_radius": 1, "compatibility": "additive"},
    "a radius, relative positions": {"attention_radius": 3, "positions": "relative"},
    "experts": {"num_experts": 4},
    "untied embeddings": {"tied_embeddings": False},
    "unscaled embeddings": {"scaled_embeddings": False},
    "untied, unscaled embeddings": {"tied_embeddings": False, "scaled_embeddings": False},
    "no residuals": {"residuals": False},
}
