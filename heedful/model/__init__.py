"""§3: packed sentences in, logits out; weights and settings on disk. It knows neither text nor steps of training.

| file | section |
|---|---|
| `interface.py` | what every family of models can do |
| `packed.py`, `layout.py` | a batch without padding, and which of its rows may look at which |
| `embedding.py` | §3.4 embeddings, §3.5 positional encoding |
| `attention.py` | §3.2 scaled dot-product and multi-head attention |
| `attention_variants.py` | not the paper's: what experiments put in the place of equation 1 |
| `feed_forward.py` | §3.3 position-wise feed-forward networks |
| `experts.py` | not the paper's: several feed-forward networks, of which a token takes two |
| `dropout.py` | §5.4 dropout |
| `layers.py`, `transformer.py` | §3.1 the layers, and the whole model |
| `decoding.py` | the same model one token at a time |
| `registry.py`, `checkpoint.py`, `device.py` | a family by its name; on disk; on which device |
| `parameter_count.py` | how large a model is |

Every tensor's name ends in its shape. The legend, the same everywhere in this package:

    N sentences        T packed tokens       S packed source tokens    L query positions    M key positions
    D d_model          H heads               K d_k (or d_v)            F d_ff               V vocabulary
    W beam width       R = N × W rows        P padded cells            A tiles on CUDA      1 where it broadcasts
    C d_k + d_v        X, E columns of heads or matrices side by side  I dimensions in pairs, 2i and 2i + 1
    B distances of relative positions                                  G experts

(P is also the places that drop numbers, in `seeds_P`, and the programs of a kernel, in their partial sums; I is also
all numbers of a batch in one row, in `numbers_I`. Outside the model T is also the steps of a search, in its `History`,
and of attention that is looked into L is the layers, W the words.)

Masks are boolean: True = may attend. Those of `decoding.py` are added to the scores instead: 0 = may attend, −∞ = may
not.
"""
