"""Our weights as Hugging Face's `MarianMTModel` and `MarianTokenizer` read them.

The model is the same; what differs is bookkeeping. Marian's positions lie in halves, all sines before all cosines,
where the paper interleaves them (§3.5): the export therefore reorders the residual stream, evens before odds, in every
matrix that reads it or writes to it. Marian has a `<pad>`, appended here as the last id with a zero row (its decoder
starts from it, which is our zero vector) and a bias that keeps it out of every softmax; and its attention has biases,
written as zeros. transformers is not imported.

What a reader of the folder must know: `generate` divides a beam's score by |Y|^α where the paper divides by
((5 + |Y|) / 6)^α, so that beams may differ where greedy output does not; MarianTokenizer does not bring text to NFC.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful.config.settings import DecodeConfig, ModelConfig
from heedful.config.supported_settings import NUMBERS, SupportedSettings, anything, one_of, share_of_d_model
from heedful.data.atomic import explained, new_folder
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.model.checkpoint import LoadedModel, write_tensors
from heedful.model.transformer import Transformer

MAX_POSITIONS = 1024
PAD, PAD_BIAS = "<pad>", -1e9
MARIAN = SupportedSettings(
    "cannot be exported: Marian takes",
    {
        **NUMBERS,
        "d_k": share_of_d_model,
        "d_v": share_of_d_model,
        "positions": one_of("sinusoidal"),
        "attention_dropout": anything,
    },
)


def write_huggingface(loaded: LoadedModel, folder: Path) -> None:
    """Write the folder that `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` load."""
    MARIAN.refuse(loaded.model.config)
    assert isinstance(loaded.model, Transformer)
    tokenizer, size = loaded.tokenizer, loaded.tokenizer.vocab_size
    texts = {
        "config.json": marian_config(loaded.model.config, size),
        "generation_config.json": _generation_config(loaded.config.decode, size),
        "vocab.json": _vocabulary(tokenizer),
        "tokenizer_config.json": _tokenizer_config(loaded),
    }
    with explained(folder, CheckpointError), new_folder(folder) as temporary:
        write_tensors(temporary / "model.safetensors", marian_state_dict(loaded.model), {"format": "pt"})
        for name in ("source.spm", "target.spm"):
            (temporary / name).write_bytes(tokenizer.model)
        for name, content in texts.items():
            (temporary / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _generation_config(decode: DecodeConfig, vocab_size: int) -> dict[str, Any]:
    return {
        "bad_words_ids": [[vocab_size]],
        "decoder_start_token_id": vocab_size,
        "pad_token_id": vocab_size,
        "eos_token_id": Tokenizer.eos_id,
        "num_beams": decode.beam_size,
        "length_penalty": decode.alpha,
        "max_length": MAX_POSITIONS,
    }


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return {piece: number for number, piece in enumerate([*pieces, PAD])}


def _tokenizer_config(loaded: LoadedModel) -> dict[str, Any]:
    source, target = loaded.languages
    eos, unk = loaded.tokenizer.pieces([loaded.tokenizer.eos_id, loaded.tokenizer.unk_id])
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source,
        "target_lang": target,
        "separate_vocabs": False,
        "model_max_length": MAX_POSITIONS,
        "eos_token": eos,
        "unk_token": unk,
        "pad_token": PAD,
    }


def marian_config(config: ModelConfig, vocab_size: int) -> dict[str, Any]:
    """The fields of Marian's config.json."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": vocab_size + 1,
        "decoder_vocab_size": vocab_size + 1,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": MAX_POSITIONS,
        "eos_token_id": Tokenizer.eos_id,
        "forced_eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": vocab_size,
        "decoder_start_token_id": vocab_size,
    }


def marian_state_dict(model: Transformer) -> dict[str, Tensor]:
    """The weights under Marian's names: copies, without the position table, which Marian computes for itself."""
    order_D = evens_then_odds(model.config.d_model).to(model.device)
    weight_VD = model.embedding.weight_VD.detach()[:, order_D]
    state = {
        "model.shared.weight": torch.cat([weight_VD, weight_VD.new_zeros(1, weight_VD.size(1))]),
        "final_logits_bias": torch.cat(
            [weight_VD.new_zeros(1, weight_VD.size(0)), weight_VD.new_full((1, 1), PAD_BIAS)], 1
        ),
    }
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            state |= _layer(layer, f"model.{side}.layers.{number}", order_D)
    return state


def evens_then_odds(d_model: int) -> Tensor:
    """The order that turns interleaved positions into halves: 0, 2, 4, …, 1, 3, 5, …"""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


_PARTS = {
    "self_attention": "self_attn",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward": "",
    "feed_forward_norm": "final_layer_norm",
}
_MATRICES = {"W_Q": "q_proj", "W_K": "k_proj", "W_V": "v_proj", "W_O": "out_proj", "W_1": "fc1", "W_2": "fc2"}
_WRITING = ("W_O", "W_2", "norm")  # to the residual stream; the others read it


def _layer(layer: nn.Module, name: str, order_D: Tensor) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for ours, weight in layer.state_dict().items():
        part, matrix, kind = ours.split(".")
        theirs = ".".join(filter(None, (name, _PARTS[part], _MATRICES.get(matrix))))
        if matrix in _WRITING:
            state[f"{theirs}.{kind}"] = weight[order_D]
        else:
            state[f"{theirs}.{kind}"] = weight[:, order_D] if kind == "weight" else weight.clone()
        if part.endswith("attention"):
            state[f"{theirs}.bias"] = weight.new_zeros(weight.size(0))
    return state
