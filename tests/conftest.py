"""What every test starts from: one thread (the models are tiny, and several test runs may share a machine)."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
