"""Pictures and text enter the decoder equally loud.

A tower that was trained by itself gives rows of any size: what judged them (a head behind a norm) did not care. Layers
add steps of size one to the residual stream and are not heard beside rows of size thirty: pictures pass through the
decoder unchanged, and nothing is ever found in them. So once, before the first step, the projector and the table of
embeddings are scaled: rows of both come out with a mean square of one. Of the projector it is the norm that is scaled:
behind it is a square, so the root is enough, and its large products keep the size that their learning rate suits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holotron.errors import ConfigError
from holotron.training.distributed import Ranks
from holotron.training.learner import Learner
from holotron.training.optimiser import Optimiser


@torch.no_grad()
def balance(learner: Learner, optimiser: Optimiser, pixels_n3HW: Tensor, where: Ranks) -> None:
    model = learner.model
    if not isinstance(model.mlp1, nn.Sequential):
        raise ConfigError("model.balance is for models with a RADIO tower and its projector")
    _, rows = learner.see(pixels_n3HW)
    rows_size = (where.sum(rows.float().square().mean()) / where.count).sqrt()
    table = model.language_model.backbone.embeddings.weight
    for parameter, size in ((model.mlp1[0].weight, rows_size.sqrt()), (table, table.float().square().mean().sqrt())):
        (name,) = (name for name, own in optimiser.parameters.items() if own is parameter)
        optimiser.originals[name].div_(size)
    optimiser.restored()
