"""Position-wise feed-forward networks (§3.3). They know nothing of positions or sentences."""

from torch import Tensor, nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """Equation 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x_TD: Tensor) -> Tensor:
        output_TD: Tensor = self.W_2(F.relu(self.W_1(x_TD)))
        return output_TD
