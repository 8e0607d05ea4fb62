"""Which twin of the plain gradients a model is trained with; none where there is no faster one."""

from __future__ import annotations

from typing import Any

from heedful.config.settings import Config
from heedful.fast.cpu.loss_by_rows import ObjectiveByRows
from heedful.model.device import has_kernels
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer
from heedful.train.gradients import Gradients, PlainGradients
from heedful.train.processes import World


def fast_gradients(model: TranslationModel, config: Config, *, precision: str, world: World) -> Gradients[Any] | None:
    """The kernels where they are made for it: bfloat16 on CUDA. On a CPU the loss of some rows at a time."""
    if isinstance(model, Transformer) and precision == "bf16" and has_kernels(model.device, config.model):
        from heedful.fast.cuda.gradients import KernelGradients  # needs Triton, which is not everywhere

        return KernelGradients(model, config, world=world)
    if model.device.type == "cpu" and precision != "bf16" and model.projection() is not None:
        return PlainGradients(ObjectiveByRows(model, config.train), world=world, autocast=False)
    return None
