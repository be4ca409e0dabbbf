"""The likeliest token, in torch.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor


def likeliest(logits_BV: Tensor, never_V: Tensor | None = None) -> Tensor:
    raw = logits_BV.to(torch.promote_types(logits_BV.dtype, torch.float32))
    masked = raw if never_V is None else raw.masked_fill(never_V, -torch.inf)
    token_B = masked.argmax(-1)
    logprob_B = raw.gather(-1, token_B[:, None])[:, 0] - raw.logsumexp(-1)
    return torch.stack([token_B.double(), logprob_B.double()])
