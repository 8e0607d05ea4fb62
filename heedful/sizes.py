"""How large a model is, by the paper's formulas: parameters, and the memory that training needs. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from heedful.config import Config, ModelConfig

ROWS_AT_ONCE = 256  # of the logits, on a CPU


def embedding_parameters(model: ModelConfig, vocab_size: int) -> int:
    """One matrix for both embeddings and the projection."""
    return vocab_size * model.d_model


def position_parameters(model: ModelConfig) -> int:
    """Those of learned positions; sinusoids have none."""
    return model.max_positions * model.d_model if model.positions == "learned" else 0


def attention_parameters(model: ModelConfig) -> int:
    """W_Q, W_K, W_V and W_O of all heads."""
    return 2 * model.num_heads * (model.head_d_k + model.head_d_v) * model.d_model


def feed_forward_parameters(model: ModelConfig) -> int:
    """W_1, b_1, W_2, b_2."""
    return 2 * model.d_model * model.d_ff + model.d_ff + model.d_model


def layer_parameters(model: ModelConfig, num_attentions: int) -> int:
    """A layer with its attentions, its feed-forward network and a norm behind each."""
    norms = (num_attentions + 1) * 2 * model.d_model
    return num_attentions * attention_parameters(model) + feed_forward_parameters(model) + norms


def num_parameters(model: ModelConfig, vocab_size: int) -> int:
    """All of them: what `Transformer(model, vocab_size)` will learn."""
    encoder = model.encoder_layers * layer_parameters(model, 1)
    decoder = model.decoder_layers * layer_parameters(model, 2)
    return embedding_parameters(model, vocab_size) + position_parameters(model) + encoder + decoder


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that training needs, roughly."""

    parameters: int  # weights, gradients, Adam's two moments, and a moving average if there is one
    activations: int  # kept for the backward pass of one micro-batch
    logits: int  # and what the loss makes of them

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.activations + self.logits


def memory_estimate(config: Config, vocab_size: int, *, device: str) -> MemoryEstimate:
    """What one process will need in float32 without our kernels: a count of the tensors that autograd keeps."""
    model = config.model
    rows = config.train.micro_batch_tokens
    heads = model.num_heads * (2 * model.head_d_k + 2 * model.head_d_v)
    attention, feed_forward = heads + 5 * model.d_model, 2 * model.d_ff + 4 * model.d_model
    layers = model.encoder_layers * (attention + feed_forward) + model.decoder_layers * (2 * attention + feed_forward)
    return MemoryEstimate(
        parameters=(20 if config.train.ema_decay else 16) * num_parameters(model, vocab_size),
        activations=4 * rows * layers,
        logits=4 * vocab_size * _numbers_of_a_word(config, rows, device),
    )


def _numbers_of_a_word(config: Config, rows: int, device: str) -> int:
    """At the peak of the loss: of each row its logits and what they become; on a CPU of few rows, and a gradient."""
    if device == "cpu" and config.train.precision != "bf16":
        return (9 if config.train.r_drop else 5) * min(rows, ROWS_AT_ONCE) + config.model.d_model
    return (7 if config.train.r_drop else 3) * rows
