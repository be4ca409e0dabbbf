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
from torch.distributed.tensor import DTensor

from holotron.errors import ConfigError
from holotron.model.looks import Looks
from holotron.training.distributed import Ranks, reshard
from holotron.training.learner import Learner
from holotron.training.optimiser import Optimiser

_NORM, _TABLE = "model.mlp1.0.weight", "model.language_model.backbone.embeddings.weight"


@torch.no_grad()
def balance(
    learner: Learner, optimiser: Optimiser, pixels_n3HW: Tensor | None, where: Ranks, looks: Looks | None = None
) -> None:
    """By the pictures of the first rank's first batch, however many ranks there are; the others look with it."""
    model = learner.model
    if not isinstance(model.mlp1, nn.Sequential):
        raise ConfigError("model.balance is for models with a RADIO tower and its projector")
    if not {_NORM, _TABLE} <= optimiser.parameters.keys():
        raise ConfigError("model.balance scales the projector and the embeddings: let both learn (model.learn)")
    if pixels_n3HW is None:
        side = model.config.image.tile_size
        pixels_n3HW = torch.zeros(1, 3, side, side, device=model.device, dtype=model.dtype)
    seen = learner.rows_of(pixels_n3HW, looks).float().square().mean()
    rows_size = where.sum(seen if where.first else torch.zeros_like(seen)).sqrt()
    reshard(learner)
    optimiser.originals[_NORM].div_(rows_size.sqrt())
    optimiser.originals[_TABLE].div_(_size(optimiser.parameters[_TABLE]))
    optimiser.restored()


def _size(table: Tensor) -> Tensor:
    whole = table.full_tensor() if isinstance(table, DTensor) else table
    return whole.float().square().mean().sqrt()
