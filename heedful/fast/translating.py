"""Which twin of the plain engine a model is searched with."""

from __future__ import annotations

import torch

from heedful.fast.cpu.prepacked import prepacked_decoder
from heedful.model.device import has_kernels
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer
from heedful.translate.torch_engine import TorchEngine


def fast_engine(*models: TranslationModel, batch_tokens: int, precision: str, reason: str) -> TorchEngine:
    """On CUDA by kernels, in bfloat16 unless fp32 is asked for; on a CPU with packed matrices."""
    model = models[0]
    if len(models) == 1 and isinstance(model, Transformer) and has_kernels(model.device, model.config):
        from heedful.fast.cuda.engine import CudaEngine  # needs Triton, which is not everywhere

        dtype = model.dtype if precision == "fp32" else torch.bfloat16
        return CudaEngine(model, dtype=dtype, batch_tokens=batch_tokens, reason=reason)
    return TorchEngine(*models, batch_tokens=batch_tokens, reason=reason, decoder_of=prepacked_decoder)
