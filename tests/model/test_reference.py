"""Our model against implementations that we did not write, weights copied across: torch.nn, Hugging Face's Marian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heedful.config.settings import ModelConfig
from heedful.errors import ConfigError
from heedful.inspection.doctor import examine
from heedful.model.attention import MultiHeadAttention
from heedful.model.checkpoint import load_model
from heedful.model.feed_forward import FeedForward
from heedful.model.interface import TranslationModel
from heedful.model.layers import DecoderLayer, EncoderLayer
from heedful.model.layout import Lengths, make_groups
from heedful.model.packed import TokenIds, pack_source, pack_target, shift_right
from heedful.model.transformer import Transformer
from heedful.translate.export.marian import (
    MAX_POSITIONS,
    evens_then_odds,
    marian_config,
    marian_state_dict,
    write_huggingface,
)
from tests.small_models import TEXT, small_model

pytestmark = pytest.mark.slow

CONFIG = ModelConfig(d_model=32, d_ff=48, num_layers=2, num_decoder_layers=3, num_heads=4, dropout=0.0)
VOCAB_SIZE = 41
SOURCE_LENGTHS = np.array([7, 1, 12, 3])
TARGET_LENGTHS = np.array([4, 9, 1, 6])
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@pytest.fixture(params=[torch.float64, torch.float32], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same numbers each time; and one thread, since tensors this small only make threads wait for each other."""
    torch.manual_seed(4)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def shaken(module: nn.Module, dtype: torch.dtype) -> None:
    """Give every parameter random values, norms and biases too, so that none is right by chance."""
    module.double()  # the same numbers whatever the type
    for name, parameter in module.named_parameters():
        mean = 1.0 if name.endswith("norm.weight") else 0.0
        nn.init.normal_(parameter, mean=mean, std=0.8 if "feed_forward.W" in name else 0.1)
    module.to(dtype)


def close(ours: Tensor, theirs: Tensor) -> None:
    tolerance = TOLERANCE[ours.dtype]
    assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


# torch.nn: padded batches there, packed rows here


def padded(rows_TD: Tensor, lengths_N: Lengths) -> Tensor:
    return nn.utils.rnn.pad_sequence(list(rows_TD.split(lengths_N.tolist())), batch_first=True)


def packed(x_NLD: Tensor, lengths_N: Lengths) -> Tensor:
    return torch.cat([x_LD[:length] for x_LD, length in zip(x_NLD, lengths_N.tolist(), strict=True)])


def is_padding(lengths_N: Lengths) -> Tensor:
    return torch.from_numpy(np.arange(lengths_N.max()) >= lengths_N[:, None])


def torch_attention(attention: MultiHeadAttention, name: str, of: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {
        f"{name}.in_proj_weight": torch.cat([of(W.weight) for W in (attention.W_Q, attention.W_K, attention.W_V)]),
        f"{name}.out_proj.weight": of(attention.W_O.weight),
    }


def torch_layer(layer: EncoderLayer | DecoderLayer, of: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """What torch.nn calls our parameters; `of` takes the value or the gradient."""
    tensors = torch_attention(layer.self_attention, "self_attn", of)
    norms = [layer.self_attention_norm, layer.feed_forward_norm]
    if isinstance(layer, DecoderLayer):
        tensors |= torch_attention(layer.cross_attention, "multihead_attn", of)
        norms.insert(1, layer.cross_attention_norm)
    for number, norm in enumerate(norms, start=1):
        tensors |= {f"norm{number}.weight": of(norm.norm.weight), f"norm{number}.bias": of(norm.norm.bias)}
    assert isinstance(layer.feed_forward, FeedForward)
    for number, linear in enumerate((layer.feed_forward.W_1, layer.feed_forward.W_2), start=1):
        tensors |= {f"linear{number}.weight": of(linear.weight), f"linear{number}.bias": of(linear.bias)}
    return tensors


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def twin(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> nn.Module:
    """torch's layer with our weights; its attention biases are zero, as we have none."""
    zeros = {key: torch.zeros_like(value) for key, value in theirs.state_dict().items()}
    copied = {key: value.clone() for key, value in torch_layer(ours, Tensor.detach).items()}
    assert zeros.keys() - copied.keys() == {key for key in zeros if "attn" in key and "bias" in key}
    theirs.load_state_dict(zeros | copied)
    return theirs


def same_gradients(ours: nn.ModuleList, theirs: list[nn.Module]) -> None:
    for our_layer, their_layer in zip(ours, theirs, strict=True):
        assert isinstance(our_layer, EncoderLayer | DecoderLayer)
        parameters = dict(their_layer.named_parameters())
        for name, our_gradient in torch_layer(our_layer, gradient).items():
            close(our_gradient, gradient(parameters[name]))


def torch_layer_like(ours: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> nn.Module:
    kind = nn.TransformerEncoderLayer if isinstance(ours, EncoderLayer) else nn.TransformerDecoderLayer
    theirs = kind(
        CONFIG.d_model,
        CONFIG.num_heads,
        CONFIG.d_ff,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=False,
        dtype=dtype,
    )
    return twin(ours, theirs)


def test_the_encoder_is_torchs_in_output_and_gradient(dtype: torch.dtype) -> None:
    ours = nn.ModuleList(EncoderLayer(CONFIG) for _ in range(CONFIG.encoder_layers))
    shaken(ours, dtype)
    theirs = [torch_layer_like(layer, dtype) for layer in layers_of(ours)]
    x_TD = torch.randn(int(SOURCE_LENGTHS.sum()), CONFIG.d_model, dtype=dtype)
    layout = make_groups(SOURCE_LENGTHS, SOURCE_LENGTHS, causal=False)

    y_TD, y_NLD = x_TD, padded(x_TD, SOURCE_LENGTHS)
    for our_layer, their_layer in zip(ours, theirs, strict=True):
        y_TD = our_layer(y_TD, layout)
        y_NLD = their_layer(y_NLD, src_key_padding_mask=is_padding(SOURCE_LENGTHS))
    their_y_TD = packed(y_NLD, SOURCE_LENGTHS)
    close(y_TD, their_y_TD)

    wish_TD = torch.randn_like(x_TD)
    (y_TD * wish_TD).sum().backward()
    (their_y_TD * wish_TD).sum().backward()
    same_gradients(ours, theirs)


def test_the_decoder_is_torchs_in_output_and_gradient(dtype: torch.dtype) -> None:
    ours = nn.ModuleList(DecoderLayer(CONFIG) for _ in range(CONFIG.decoder_layers))
    shaken(ours, dtype)
    theirs = [torch_layer_like(layer, dtype) for layer in layers_of(ours)]
    x_TD = torch.randn(int(TARGET_LENGTHS.sum()), CONFIG.d_model, dtype=dtype)
    memory_SD = torch.randn(int(SOURCE_LENGTHS.sum()), CONFIG.d_model, dtype=dtype, requires_grad=True)
    their_memory_SD = memory_SD.detach().clone().requires_grad_()
    layout = make_groups(TARGET_LENGTHS, TARGET_LENGTHS, causal=True)
    cross_layout = make_groups(TARGET_LENGTHS, SOURCE_LENGTHS, causal=False)
    future_LL = torch.ones(TARGET_LENGTHS.max(), TARGET_LENGTHS.max(), dtype=torch.bool).triu(1)

    y_TD, y_NLD = x_TD, padded(x_TD, TARGET_LENGTHS)
    for our_layer, their_layer in zip(ours, theirs, strict=True):
        y_TD = our_layer(y_TD, memory_SD, layout, cross_layout)
        y_NLD = their_layer(
            y_NLD,
            padded(their_memory_SD, SOURCE_LENGTHS),
            tgt_mask=future_LL,
            memory_key_padding_mask=is_padding(SOURCE_LENGTHS),
        )
    their_y_TD = packed(y_NLD, TARGET_LENGTHS)
    close(y_TD, their_y_TD)

    wish_TD = torch.randn_like(x_TD)
    (y_TD * wish_TD).sum().backward()
    (their_y_TD * wish_TD).sum().backward()
    same_gradients(ours, theirs)
    close(gradient(memory_SD), gradient(their_memory_SD))


def layers_of(stack: nn.ModuleList) -> Iterator[EncoderLayer | DecoderLayer]:
    for layer in stack:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        yield layer


# Hugging Face's Marian


def our_model(dtype: torch.dtype) -> Transformer:
    model = Transformer(CONFIG, VOCAB_SIZE)
    shaken(model, dtype)
    with torch.no_grad():
        model.embedding.weight_VD[0] *= 2  # so that some sentences end
    return model.eval()


def marian(model: Transformer, dtype: torch.dtype) -> Any:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.MarianMTModel(transformers.MarianConfig(**marian_config(CONFIG, VOCAB_SIZE)))
    theirs.to(dtype)
    missing, unexpected = theirs.load_state_dict(marian_state_dict(model), strict=False)
    assert not unexpected
    assert all("embed_" in name or name == "lm_head.weight" for name in missing), "these are tied, or positions"
    if dtype == torch.float64:
        use_exact_positions(theirs)
    return theirs.eval()


def use_exact_positions(theirs: nn.Module) -> None:
    """Marian computes its positions in float32; the same formula in float64, sines before cosines."""
    half_D = np.arange(0, CONFIG.d_model, 2)
    angle_LD = np.arange(MAX_POSITIONS)[:, None] / 10000 ** (half_D / CONFIG.d_model)
    table_LD = torch.from_numpy(np.concatenate([np.sin(angle_LD), np.cos(angle_LD)], axis=1))
    for side in ("encoder", "decoder"):
        theirs.get_submodule(f"model.{side}.embed_positions").load_state_dict({"weight": table_LD})


def random_ids(lengths_N: Lengths) -> TokenIds:
    return torch.randint(0, VOCAB_SIZE, (int(lengths_N.sum()),)).numpy()


def padded_ids(ids_T: TokenIds, lengths_N: Lengths) -> Tensor:
    rows = torch.from_numpy(ids_T).split(lengths_N.tolist())
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=VOCAB_SIZE)


def test_the_whole_model_is_marian_in_logits(dtype: torch.dtype) -> None:
    ours = our_model(dtype)
    theirs = marian(ours, dtype)
    source_T, target_T = random_ids(SOURCE_LENGTHS), random_ids(TARGET_LENGTHS)
    with torch.no_grad():
        logits_TV = ours(
            pack_source(source_T, SOURCE_LENGTHS), pack_target(shift_right(target_T), TARGET_LENGTHS, SOURCE_LENGTHS)
        )
        target_NL = padded_ids(target_T, TARGET_LENGTHS)
        output = theirs(
            input_ids=padded_ids(source_T, SOURCE_LENGTHS),
            attention_mask=~is_padding(SOURCE_LENGTHS),
            decoder_input_ids=torch.cat([torch.full_like(target_NL[:, :1], VOCAB_SIZE), target_NL[:, :-1]], dim=1),
        )
    their_logits_TV = packed(output.logits, TARGET_LENGTHS)
    close(logits_TV, their_logits_TV[:, :VOCAB_SIZE])
    assert (their_logits_TV.softmax(dim=-1)[:, VOCAB_SIZE] == 0).all(), "<pad> takes no probability"


MAX_NEW_TOKENS = 12


def greedy(model: TranslationModel, source_T: TokenIds) -> list[int]:
    """The likeliest next token, again and again, each time from the start."""
    source, lengths_1 = pack_source(source_T, np.array([len(source_T)])), np.array([len(source_T)])
    ids: list[int] = []
    while len(ids) < MAX_NEW_TOKENS and (not ids or ids[-1] != 0):
        target_T = shift_right(np.array([*ids, 0]))
        logits_TV = model(source, pack_target(target_T, np.array([len(target_T)]), lengths_1))
        ids.append(int(logits_TV[-1].argmax()))
    return ids


def test_greedy_output_is_marians(dtype: torch.dtype) -> None:
    ours = our_model(dtype)
    theirs = marian(ours, dtype)
    lengths_N = np.random.default_rng(1).integers(1, 12, size=12)
    source_T = random_ids(lengths_N)
    with torch.no_grad():
        output_NL = theirs.generate(
            input_ids=padded_ids(source_T, lengths_N),
            attention_mask=~is_padding(lengths_N),
            num_beams=1,
            do_sample=False,
            max_new_tokens=MAX_NEW_TOKENS,
        )
        mine = [greedy(ours, ids) for ids in np.split(source_T, np.cumsum(lengths_N)[:-1])]
    assert mine == [[i for i in row[1:] if i != VOCAB_SIZE] for row in output_NL.tolist()]
    assert 0 < sum(ids[-1] == 0 for ids in mine) < len(mine), "some end by themselves, some by the limit"
    assert max(len(set(ids)) for ids in mine) > 2, "a word over and over would show little"


def test_evens_then_odds() -> None:
    assert evens_then_odds(6).tolist() == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"positions": "learned"}, "model.positions = learned"),
        ({"d_k": 32}, "model.d_k = 32"),
        ({"d_v": 16}, "model.d_v = 16"),
    ],
)
def test_what_marian_cannot_say_is_refused(setting: dict[str, Any], message: str, tmp_path: Path) -> None:
    loaded = load_model(small_model(tmp_path / "model", **setting), device=torch.device("cpu"))
    with pytest.raises(ConfigError, match=message):
        write_huggingface(loaded, tmp_path / "marian")
    assert not (tmp_path / "marian").exists()


def test_the_exported_folder_is_loaded_by_marian_and_translates_the_same(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = load_model(small_model(tmp_path / "model"), device=torch.device("cpu"))
    write_huggingface(ours, tmp_path / "marian")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "marian")
    batch = tokenizer(TEXT, return_tensors="pt", padding=True)
    ids = [ours.tokenizer.encode(line) for line in TEXT]
    assert [[i for i in row if i != tokenizer.pad_token_id] for row in batch["input_ids"].tolist()] == [
        [*line, 0] for line in ids
    ]
    output_NL = theirs.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=MAX_NEW_TOKENS, max_length=None)
    with torch.no_grad():
        mine = [greedy(ours.model, np.array([*line, 0])) for line in ids]
    assert mine == [[i for i in row[1:] if i != tokenizer.pad_token_id] for row in output_NL.tolist()]
    texts = tokenizer.batch_decode(output_NL, skip_special_tokens=True)
    assert texts == [ours.tokenizer.decode(line) for line in mine]


def test_the_doctor_finds_that_marian_agrees(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    findings = {finding.name: finding for finding in examine(small_model(tmp_path / "model")).findings}
    assert findings["huggingface"].agrees
    assert findings["huggingface"].equal == findings["huggingface"].total > 0
