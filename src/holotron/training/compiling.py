"""Parts of an update that move more memory than they compute, fused by torch.compile (`model.compile` in a recipe).

Pixels, the tower's blocks and the reading loss: sums, norms, GELU, softmax and their gradients become a few kernels,
which read and write everything once. The products stay those of the libraries. The decoder has kernels of its own.

Compiled code runs where gradients flow; evaluations, which show few pictures of many shapes, run as ever. Everything is
tried forwards and backwards before it is put in place, so a machine that cannot compile (no Triton, no C++ compiler)
trains as it would have without, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor

from holotron.model.processor.images import channels, rescale
from holotron.model.vision import VisionBlock, VisionTower
from holotron.training.augment import augment, relight
from holotron.training.characters import SLOTS
from holotron.training.learner import Learner
from holotron.training.reading import ReadingHead
from holotron.training.recipe import AugmentPart

_TRIED_WITH = 3  # pictures; more than one, so that their number stays open


def compile_parts(learner: Learner, backend: str = "inductor") -> str | None:
    """Put compiled parts in place. None, or in one line why everything stays as it was."""
    tower = learner.model.vision_model
    if not isinstance(tower, VisionTower):
        return "there is no RADIO tower"
    heads = [head for head in learner.heads.values() if isinstance(head, ReadingHead)]
    asking, thinking = (_compiled(half, (1, 2), backend) for half in (VisionBlock.asking, VisionBlock.thinking))
    loss = _compiled(ReadingHead.loss, (1, 2), backend)
    relit, rescaled = _compiled(relight, (0, 1, 2, 3, 4, 5), backend), _compiled(rescale, (0,), backend)
    try:
        _rehearse_pixels(learner, relit, rescaled)
        _rehearse(learner, heads, (asking, thinking), loss)
    except Exception as error:  # whatever is missing here: a compiler, a driver, a version
        return next(filter(None, str(error).splitlines()), repr(error))
    learner.relight, learner.rescale = relit, _where_it_learns(rescale, rescaled)
    for block in cast("list[VisionBlock]", list(tower.blocks)):
        block.asking = MethodType(_where_it_learns(VisionBlock.asking, asking), block)  # type: ignore[method-assign]
        block.thinking = MethodType(_where_it_learns(VisionBlock.thinking, thinking), block)  # type: ignore[method-assign]
    for head in heads:
        head.loss = MethodType(_where_it_learns(ReadingHead.loss, loss), head)  # type: ignore[method-assign]
    return None


def _compiled(function: Callable[..., Any], pictures: tuple[int, ...], backend: str) -> Callable[..., Any]:
    """One compilation serves all modules of a class: their weights are arguments like any other. No two batches have as
    many pictures, so their number is left open, the first dimension of the arguments at the places `pictures`. For one
    alone torch would compile once more; there the function is called as it is."""
    compiled = torch.compile(function, fullgraph=True, backend=backend)

    def call(*arguments: Any) -> Any:
        tensors = [arguments[place] for place in pictures if arguments[place] is not None]
        if len(tensors[0]) < 2:
            return function(*arguments)
        for tensor in tensors:
            torch._dynamo.mark_dynamic(tensor, 0)
        return compiled(*arguments)

    return call


def _where_it_learns(plain: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return (compiled if torch.is_grad_enabled() else plain)(*arguments)

    return call


def _rehearse(
    learner: Learner,
    heads: list[ReadingHead],
    halves: tuple[Callable[..., Any], Callable[..., Any]],
    loss: Callable[..., Any],
) -> None:
    """Everything once with its gradients; nothing is left behind in the parameters."""
    tower, image = learner.model.vision_model, learner.model.config.image
    assert isinstance(tower, VisionTower)
    first: Any = tower.blocks[0]
    weight, side = first.norm1.weight, image.downsample if image.sparse else tower.config.grid
    tokens = () if image.sparse else (tower.config.prefix + side**2,)
    x = weight.new_zeros(_TRIED_WITH, *tokens, tower.config.hidden).requires_grad_()
    asking, thinking = halves
    begun: Tensor = x
    stream: Any = None
    for _ in range(2):  # without a stream, and with one
        qkv, stream = asking(first, begun, stream)
        begun, stream = thinking(first, qkv[..., : tower.config.hidden].contiguous(), stream)
    total = torch.stack([part.float().sum() for part in (begun, stream)]).sum()
    for head in heads:
        cells = side // head.side
        seen = weight.new_zeros(_TRIED_WITH, cells**2, head.norm.normalized_shape[0]).requires_grad_()
        labels = torch.zeros(_TRIED_WITH, side, side * SLOTS, dtype=torch.uint8, device=weight.device)
        total = total + loss(head, seen, labels, cells, cells)
    learning = [p for part in (first, *heads) for p in part.parameters() if p.requires_grad]
    torch.autograd.grad(total, [x, *learning])


def _rehearse_pixels(learner: Learner, relit: Callable[..., Any], rescaled: Callable[..., Any]) -> None:
    image, device = learner.model.config.image, learner.model.device
    size = image.patch_size * image.downsample if image.sparse else image.tile_size
    tiles = torch.zeros(_TRIED_WITH, 3, size, size, dtype=torch.uint8, device=device)
    light = AugmentPart(brightness=0.1, noise=0.1)
    rescaled(
        augment(tiles, light, torch.Generator(), relit),
        *channels(learner.model.config.image, device),
        learner.model.dtype,
    )
