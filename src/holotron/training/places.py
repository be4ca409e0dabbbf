"""Four dense losses about where things are. Their heads exist only in training.

`place`: every row that the language model gets must say in which row and column of its tile it lies. Reading does not
need that, so a tower that was only taught to read forgets it, and then nobody can say where anything is.

`tile`: inside the decoder, every image token must say which tile of its picture it belongs to. All tiles look alike
from within; only who counts them knows which quarter of a large page is meant.

`pointing`: a click's few digits tell the network little about what it should have looked at. So the image tokens of the
picture, which come after the goal and can compare themselves with it, are asked directly: which of you is it? One
softmax over the picture, the answer being the token that shows the first place of the reply: the click, or the quoted
text beside it, which can be recognised as soon as it is seen. They are asked before the last attention layer, so that
the reply, which looks at them there, finds the token marked; asked at the end, only the head would know.

`aiming`: tokens that went by before what the goal quotes was seen cannot know that they are meant. So the reply, which
has seen everything, asks too: before each place it writes, the token there must find the image token that shows it, in
the same stream and for the same reason.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holotron.model.config import ImageConfig
from holotron.model.processor import tile_grid


class PlaceHead(nn.Module):
    """Rows of a tile to scores of `rows` + `columns` classes each."""

    def __init__(self, width: int, rows: int, columns: int) -> None:
        super().__init__()
        self.sizes = (rows, columns)
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, rows + columns)

    def forward(self, rows_nkD: Tensor, place: Tensor | None = None) -> Tensor:
        """The cross-entropy of all rows' places, row and column, summed. Rows lie line after line, or in these
        places."""
        n, k, _ = rows_nkD.shape
        place = torch.arange(k, device=rows_nkD.device).repeat(n) if place is None else place
        by_row, by_column = self.classify(self.norm(rows_nkD)).float().flatten(0, 1).split(self.sizes, dim=-1)
        columns = self.sizes[1]
        found = F.cross_entropy(by_row, place // columns, reduction="sum")
        return found + F.cross_entropy(by_column, place % columns, reduction="sum")


class TileHead(nn.Module):
    """Image tokens inside the decoder to scores of the tiles of a picture."""

    def __init__(self, width: int, tiles: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, tiles)

    def forward(self, stream_iD: Tensor, number_i: Tensor) -> Tensor:
        """The cross-entropy of all tokens' tiles, summed."""
        return F.cross_entropy(self.classify(self.norm(stream_iD)).float(), number_i, reduction="sum")


class PointingHead(nn.Module):
    """Hidden vectors of image tokens to one score each: whether it looks like a place to click, and how well it matches
    the token that asks: the one before the picture, which has read the goal, or one of the reply."""

    def __init__(self, width: int, matched: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, 1)
        self.ask = nn.Linear(width, matched)
        self.answer = nn.Linear(width, matched)

    def forward(self, asking_pD: Tensor, hidden_jD: Tensor, question_j: Tensor, label_p: Tensor) -> Tensor:
        """The cross-entropy of a softmax over the picture of each question, summed. `question_j`: which of p questions
        a token is asked; `label_p`: the right token of each."""
        hidden = self.norm(hidden_jD)
        asked = self.ask(self.norm(asking_pD)).index_select(0, question_j)
        match = (asked * self.answer(hidden)).sum(-1) * asked.shape[-1] ** -0.5
        score_j = (self.score(hidden).flatten() + match).float()
        most_p = torch.full(label_p.shape, -torch.inf, device=score_j.device)
        most_p = most_p.scatter_reduce(0, question_j, score_j.detach(), "amax")
        total_p = torch.zeros_like(most_p).index_add(0, question_j, (score_j - most_p[question_j]).exp())
        return (total_p.log() + most_p - score_j[label_p]).sum()


def token_at(shown_k2: np.ndarray, size: tuple[int, int], x: float, y: float, image: ImageConfig) -> int | None:
    """Which image token of a picture shows the point (x, y), given as parts of its width and height. `shown_k2` names
    tile and row of every token (see `TokenSequence`), tiles counted from the picture's first. None where the point is
    outside, or on a part that was not shown again."""
    if not (0 <= x < 1 and 0 <= y < 1):
        return None
    columns, rows = tile_grid(*size, image)
    side = image.tile_size // image.patch_size // image.downsample
    column, row = int(x * columns * side), int(y * rows * side)
    tile = row // side * columns + column // side
    found = np.flatnonzero((shown_k2[:, 0] == tile) & (shown_k2[:, 1] == row % side * side + column % side))
    return int(found[0]) if len(found) else None
