"""What every test starts from: one thread (the models are tiny, and several test runs may share a machine), no clock.

Such a machine may be busy: an example that Hypothesis thinks of has no deadline.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile("heedful", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("heedful")
