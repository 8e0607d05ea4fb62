"""Our weights as CTranslate2 reads them: a folder with model.bin, config.json and the vocabulary.

CTranslate2 takes the table of positions from the model, so that the paper's interleaved sinusoids stay as they are and
learned positions can be said too; only their number is fixed. Its attention needs no biases, and its decoder can start
from the zero vector. `source.spm` and `target.spm` are added for those who use the folder with tools of their own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from heedful.config.optional_packages import install_line
from heedful.config.settings import FamilyConfig
from heedful.config.supported_settings import NUMBERS, SupportedSettings, anything, one_of, share_of_d_model
from heedful.data.atomic import explained, new_folder
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DeviceError
from heedful.model.attention import MultiHeadAttention
from heedful.model.checkpoint import LoadedModel
from heedful.model.feed_forward import FeedForward
from heedful.model.layers import LAYER_NORM_EPS, AddAndNorm, DecoderLayer, EncoderLayer
from heedful.model.transformer import Transformer

MAX_POSITIONS = 1024
QUANTIZATIONS = ("float32", "int8")
CTRANSLATE2 = SupportedSettings(
    "cannot be exported: CTranslate2 takes",
    {
        **NUMBERS,
        "d_k": share_of_d_model,
        "d_v": share_of_d_model,
        "positions": one_of("sinusoidal", "learned"),
        "attention_dropout": anything,  # nothing is dropped
    },
    remedy="; use the torch engine",
)


def library(name: str = "ctranslate2") -> Any:
    """CTranslate2, or one of its modules, if it is installed."""
    try:
        return import_module(name)
    except ImportError:
        raise DeviceError(f"CTranslate2 is not installed; {install_line('ctranslate2')}") from None


def num_positions(config: FamilyConfig) -> int:
    """How many tokens a sentence may have in the export, its eos included."""
    return MAX_POSITIONS if config.position_limit == sys.maxsize else config.position_limit


def write_ctranslate2(loaded: LoadedModel, folder: Path, *, quantize: str = "float32") -> None:
    """Write the folder; `quantize` says how the matrices are stored, and by default computed with."""
    if quantize not in QUANTIZATIONS:
        raise ConfigError(f"quantize = {quantize!r} is unknown; choose one of {', '.join(QUANTIZATIONS)}")
    CTRANSLATE2.refuse(loaded.model.config)
    assert isinstance(loaded.model, Transformer)
    spec = make_spec(loaded.model, loaded.tokenizer)
    with explained(folder, CheckpointError), new_folder(folder) as temporary:
        spec.optimize(quantization=None if quantize == "float32" else quantize)
        spec.save(str(temporary))
        for name in ("source.spm", "target.spm"):
            (temporary / name).write_bytes(loaded.tokenizer.model)


def make_spec(model: Transformer, tokenizer: Tokenizer) -> Any:
    """The model as CTranslate2's specification of a Transformer."""
    specs, config = library("ctranslate2.specs"), model.config
    layers = (config.encoder_layers, config.decoder_layers)
    activation = library("ctranslate2.specs.common_spec").Activation.RELU
    spec = specs.TransformerSpec.from_config(layers, config.num_heads, pre_norm=False, activation=activation)
    _set_stack(spec.encoder, spec.encoder.embeddings[0], model, model.encoder)
    _set_stack(spec.decoder, spec.decoder.embeddings, model, model.decoder)
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    _set_vocabulary(spec, tokenizer)
    spec.validate()
    return spec


def _set_vocabulary(spec: Any, tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token, spec.config.eos_token = pieces[tokenizer.unk_id], pieces[tokenizer.eos_id]
    spec.config.bos_token = spec.config.decoder_start_token = spec.config.eos_token  # the decoder starts from zeros
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = LAYER_NORM_EPS


def _set_stack(spec: Any, embeddings: Any, model: Transformer, layers: nn.ModuleList) -> None:
    embeddings.weight = _array(model.embedding.weight_VD)
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _array(model.embedding.position_table(MAX_POSITIONS))
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm, fused=3)
        if isinstance(layer, DecoderLayer):
            _set_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_norm, fused=2)
        assert isinstance(layer.feed_forward, FeedForward)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_norm)


def _set_attention(spec: Any, part: MultiHeadAttention, norm: AddAndNorm, *, fused: int) -> None:
    """`fused` of the matrices Q, K and V lie in one: all three, or in cross-attention K and V."""
    matrices = [_array(matrix.weight) for matrix in (part.W_Q, part.W_K, part.W_V)]
    groups = [*([matrix] for matrix in matrices[: 3 - fused]), matrices[3 - fused :]]
    for linear, group in zip(spec.linear, groups, strict=False):
        linear.weight = np.concatenate(group)
    spec.linear[-1].weight = _array(part.W_O.weight)
    _set_norm(spec.layer_norm, norm)


def _set_feed_forward(spec: Any, part: FeedForward, norm: AddAndNorm) -> None:
    for linear, matrix in ((spec.linear_0, part.W_1), (spec.linear_1, part.W_2)):
        linear.weight, linear.bias = _array(matrix.weight), _array(matrix.bias)
    _set_norm(spec.layer_norm, norm)


def _set_norm(spec: Any, part: AddAndNorm) -> None:
    spec.gamma, spec.beta = _array(part.norm.weight), _array(part.norm.bias)


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """A copy: CTranslate2 quantizes in place."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float32)
