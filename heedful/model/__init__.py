"""The Transformer of section 3.

| file | section |
|---|---|
| `attention.py` | §3.2 scaled dot-product and multi-head attention |
| `feed_forward.py` | §3.3 position-wise feed-forward networks |
| `embedding.py` | §3.4 embeddings, §3.5 positional encoding |
| `layers.py` | §3.1 the encoder's and the decoder's layers |
| `dropout.py` | §5.4 dropout, by torch's generator or by seeds on the device |
| `transformer.py` | §3 the whole model, for training |
| `decoding.py` | the same model one token at a time, for decoding |
| `fast/cpu/prepacked.py` | what it multiplies with on a CPU, packed once |
| `fast/cuda/static_decoder.py` | and once more in fixed shapes, for decoding on CUDA |
| `kernels/` | the same computations in Triton, for CUDA |

Every tensor's name ends in its shape. The legend, the same everywhere in this package:

    N sentences        T packed tokens       S packed source tokens    L query positions    M key positions
    D d_model          H heads               K d_k (or d_v)            F d_ff               V vocabulary
    W beam width       R = N × W rows        P padded slots            A tiles on CUDA      1 where it broadcasts
    C d_k + d_v        X, E columns of heads or matrices side by side  I dimensions in pairs, 2i and 2i + 1

(P is also the places that drop numbers, in `seeds_P`, and the programs of a kernel, in their partial sums; I is also
all numbers of a batch in one row, in `numbers_I`. Outside the model T is also the steps of a search, in its `History`,
and of attention that is looked into L is the layers, W the words.)

Masks are boolean: True = may attend. Those of `decoding.py` are added to the scores instead: 0 = may attend, −∞ = may
not. Nothing here knows text, files, batches' origin or the optimizer.
"""
