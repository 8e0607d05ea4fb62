"""Triton kernels for CUDA, each with a plain twin that it is tested against.

| file | computes | its twin |
|---|---|---|
| `attention.py` | equation 1 on packed rows | `plain_attention` in `model/attention.py` |
| `add_norm.py` | LayerNorm(x + Dropout(y)), and dropout alone | `nn.LayerNorm` and `F.dropout` |
| `feed_forward.py` | equation 2 | `FeedForward` in `model/feed_forward.py` |
| `cached_step.py` | a step of decoding, but for its products | `CachedLayer` in `model/decoding.py` |
| `cross_entropy.py` | projection and label-smoothed loss | `smoothed_cross_entropy` in `train/loss.py` |
| `r_drop_loss.py` | the same and R-Drop's divergence | `twin_divergence` in `train/r_drop.py` |

`attention_tiles.py` holds the kernels of `attention.py`, `sums.py` the sums over rows that gradients need. Nothing
imports these modules unless a tensor is on a GPU, so that an installation without Triton works. All of it is
deterministic: no atomics, and every sum has a fixed order. With TRITON_INTERPRET=1 the kernels run on a CPU.
"""
