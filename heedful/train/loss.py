"""Label smoothing (§5.4). It knows logits and the right tokens; no model, no batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from heedful.model.packed import NO_TARGET


@dataclass(frozen=True, slots=True)
class LossSums:
    """Sums over the target tokens: the smoothed loss, which is trained, and the true negative log-likelihood."""

    smoothed: Tensor
    negative_log_likelihood: Tensor


def smoothed_cross_entropy(logits_TV: Tensor, target_T: Tensor, label_smoothing: float) -> LossSums:
    """Cross-entropy with the distribution (1 − ε) · [v = target] + ε / V; rows without a target count nothing."""
    log_probs_TV = F.log_softmax(logits_TV, dim=-1)
    counts_T = target_T != NO_TARGET
    right_T1 = target_T.clamp(min=0)[:, None]
    nll_T = -log_probs_TV.gather(1, right_T1).squeeze(1) * counts_T
    uniform_T = -log_probs_TV.mean(dim=-1) * counts_T
    nll, uniform = nll_T.sum(), uniform_T.sum()
    return LossSums((1 - label_smoothing) * nll + label_smoothing * uniform, nll.detach())
