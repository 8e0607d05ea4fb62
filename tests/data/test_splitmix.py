"""SplitMix64's finalizer."""

import numpy as np
import pytest
import torch

from heedful.data.splitmix import GOLDEN_GAMMA, mixed, shifted

# The first numbers that SplitMix64 gives for these seeds, as its authors' C code does.
PUBLISHED = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423],
}


@pytest.mark.parametrize("seed", PUBLISHED)
def test_numpy_and_torch_give_the_published_numbers(seed: int) -> None:
    states = seed + GOLDEN_GAMMA * np.arange(1, 4)
    for found in (mixed(states), mixed(torch.from_numpy(states)).numpy()):
        assert found.view(np.uint64).tolist() == PUBLISHED[seed]


def test_zeros_come_in_from_the_left() -> None:
    words = np.array([-1, 2**62])
    assert shifted(words, 4).tolist() == [2**60 - 1, 2**58]
    assert shifted(torch.from_numpy(words), 4).tolist() == [2**60 - 1, 2**58]
