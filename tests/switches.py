"""The switches of the Transformer, each as the settings that turn it on."""

from typing import Any

SWITCHES: dict[str, dict[str, Any]] = {
    "no positions": {"positions": "none"},
    "relative positions": {"positions": "relative"},
    "relative positions, unscaled": {"positions": "relative", "compatibility": "unscaled"},
    "rotary positions": {"positions": "rotary"},
    "unscaled": {"compatibility": "unscaled"},
    "additive": {"compatibility": "additive"},
}
