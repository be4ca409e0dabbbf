"""The whole vision-language model: tower, projector, decoder, and the merge of image rows into the text.

model = Holotron(config)
rows = model.encode_tiles(pixels)                       # [n * tokens_per_tile, D]
x = model.merge(ids, rows)                              # embeddings with image rows in place
hidden = model.language_model(x, layout, cache)
logits = model.language_model.logits(hidden)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holotron.errors import InputError
from holotron.kernels.layout import Layout
from holotron.model.cache import DecoderState
from holotron.model.config import ModelConfig
from holotron.model.decoder import Decoder
from holotron.model.vision import VisionTower, pixel_shuffle, projector


class Holotron(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.file_dtypes: dict[str, torch.dtype] = {}  # by checkpoint key, when loaded from files
        self.language_model = Decoder(config.decoder)
        if config.vision is not None and config.projector is not None:
            self.vision_model: VisionTower | None = VisionTower(config.vision)
            self.mlp1: nn.Sequential | None = projector(config.vision, config.projector, config.decoder.hidden)
        else:
            self.vision_model = None
            self.mlp1 = None

    @property
    def dtype(self) -> torch.dtype:
        return self.language_model.dtype

    @property
    def device(self) -> torch.device:
        return self.language_model.device

    def new_state(self, batch: int = 1, capacity: int = 256, state_dtype: torch.dtype | None = None) -> DecoderState:
        return self.language_model.new_state(batch, capacity, state_dtype)

    def encode_tiles(self, pixels_n3HW: Tensor) -> Tensor:
        """Normalised tiles to rows of the language model, tile after tile: [n * tokens_per_tile, D]."""
        if self.vision_model is None or self.mlp1 is None or self.config.projector is None:
            raise InputError(f"{self.config.name or 'this model'} has no vision tower: it reads text only")
        patch = self.vision_model.config.patch
        rows, columns = pixels_n3HW.shape[-2] // patch, pixels_n3HW.shape[-1] // patch
        features = self.vision_model(pixels_n3HW.to(self.dtype))
        return self.mlp1(pixel_shuffle(features, rows, columns, self.config.projector.shuffle)).flatten(0, 1)

    def merge(self, ids_T: Tensor, image_rows: Tensor | None = None) -> Tensor:
        """Embed tokens; every image placeholder takes the next image row."""
        x = self.language_model.embed(ids_T)
        if image_rows is None:
            return x
        places = ids_T == self.config.tokens.image
        if (wanted := int(places.sum())) != image_rows.shape[0]:
            raise InputError(f"the prompt has {wanted} image tokens but the images give {image_rows.shape[0]} rows")
        return x.masked_scatter(places[:, None], image_rows.to(x.dtype))

    def forward(
        self,
        ids_T: Tensor,
        lengths: Sequence[int] | None = None,
        *,
        state: DecoderState | None = None,
        rows: Sequence[int] | None = None,
        pixels: Tensor | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Logits of packed sequences. Without a state: the whole sequences, differentiable. With one: these tokens are
        appended to the state's rows. `last_only` gives one row of logits per sequence."""
        lengths = list(lengths) if lengths is not None else [ids_T.shape[0]]
        x = self.merge(ids_T, self.encode_tiles(pixels) if pixels is not None else None)
        if state is None:
            layout = Layout.build(lengths, device=ids_T.device)
            hidden = self.language_model(x, layout)
        else:
            layout = state.advance(lengths, rows)
            hidden = self.language_model(x, layout, state.cache)
        if last_only:
            hidden = hidden[layout.starts_S1[1:].long() - 1]
        return self.language_model.logits(hidden)
