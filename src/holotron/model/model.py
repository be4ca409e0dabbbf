"""The whole vision-language model: tower, projector, decoder, and the merge of image rows into the text.

model = Holotron(config)
rows = model.encode_tiles(pixels)                       # [n * tokens_per_tile, levels * D]
x, deep = model.merge(ids, rows)                        # embeddings with image rows in place, and what is added later
hidden = model.language_model(x, layout, cache, deep)
logits = model.language_model.logits(hidden)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holotron.errors import ConfigError, InputError
from holotron.kernels.layout import Layout
from holotron.model.cache import DecoderState
from holotron.model.config import ModelConfig, QwenVisionConfig
from holotron.model.decoder import Decoder, Deep
from holotron.model.layers import Projection
from holotron.model.looks import Looks
from holotron.model.positions import Shown, packed_shifts
from holotron.model.qwen_vision import QwenMerger, QwenVisionTower
from holotron.model.vision import Projector, VisionTower, pixel_shuffle


class Holotron(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.file_dtypes: dict[str, torch.dtype] = {}  # by checkpoint key, when loaded from files
        self.language_model = Decoder(config.decoder)
        self.vision_model: VisionTower | QwenVisionTower | None = None
        self.mlp1: Projector | QwenMerger | None = None  # the projector, by its name in the first family
        if isinstance(config.vision, QwenVisionConfig):
            self.vision_model = QwenVisionTower(config.vision)
            self.mlp1 = QwenMerger(config.vision, config.decoder.hidden)
        elif config.vision is not None and config.projector is not None:
            self.vision_model = VisionTower(config.vision)
            self.mlp1 = Projector(config.vision, config.projector, config.decoder.hidden)

    @property
    def dtype(self) -> torch.dtype:
        return self.language_model.dtype

    @property
    def device(self) -> torch.device:
        return self.language_model.device

    def new_state(self, batch: int = 1, capacity: int = 256, state_dtype: torch.dtype | None = None) -> DecoderState:
        return self.language_model.new_state(batch, capacity, state_dtype)

    def see(self, pixels_n3HW: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised tiles to the tower's last features, [n, patches, V], and to rows of the language model, [n,
        tokens, levels * D]: the embedding of each token, and beside it what deepstack adds to it later."""
        tower, project = self.vision_model, self.mlp1
        if tower is None or project is None:
            raise InputError(f"{self.config.name or 'this model'} has no vision tower: it reads text only")
        if isinstance(tower, QwenVisionTower):
            levels = tower(pixels_n3HW)
            return levels[-1], project(levels)
        assert self.config.projector is not None
        rows, columns = pixels_n3HW.shape[-2] // tower.config.patch, pixels_n3HW.shape[-1] // tower.config.patch
        features = tower(pixels_n3HW)
        return features, project(pixel_shuffle(features, rows, columns, self.config.projector.shuffle))

    def see_groups(self, pixels_K3ss: Tensor, looks: Looks) -> tuple[Tensor, Tensor]:
        """The same of sparse pictures: normalised groups of tiles to features [K, patches, V] and rows [K, 1, D]."""
        tower, project = self.vision_model, self.mlp1
        assert isinstance(tower, VisionTower) and isinstance(project, Projector), "only RADIO towers read groups"
        image = self.config.image
        features = tower.groups(pixels_K3ss, looks, image.tile_size // image.patch_size)
        return features, project(features.flatten(1)[:, None])

    def quantize_vision(self) -> None:
        """Keep the products of the tower's layers and of the projector in 8 bits from here on, for inference."""
        if not isinstance(self.vision_model, VisionTower) or self.mlp1 is None:
            name = self.config.name or "this model"
            raise ConfigError(f"{name} has no RADIO tower: vision_dtype is for models that have one")
        for part in (self.vision_model, self.mlp1):
            for module in part.modules():
                if isinstance(module, Projection) and not module.quantized:
                    module.quantize()

    def encode_groups(self, pixels_K3ss: Tensor, looks: Looks) -> Tensor:
        """The rows of normalised groups: [K, D]."""
        return self.see_groups(pixels_K3ss.to(self.dtype), looks)[1].flatten(0, 1)

    def encode_tiles(self, pixels_n3HW: Tensor) -> Tensor:
        """The rows of normalised tiles of one size, tile after tile: [n * tokens, levels * D]."""
        return self.see(pixels_n3HW.to(self.dtype))[1].flatten(0, 1)

    def merge(self, ids_T: Tensor, image_rows: Tensor | None = None) -> tuple[Tensor, Deep | None]:
        """Embed tokens; every image placeholder takes the next image row."""
        x = self.language_model.embed(ids_T)
        if image_rows is None:
            return x, None
        places_i = (ids_T == self.config.tokens.image).nonzero()[:, 0]
        if len(places_i) != len(image_rows):
            raise InputError(f"the prompt has {len(places_i)} image tokens but the images give {len(image_rows)} rows")
        return self.show(x, places_i, image_rows)

    def show(self, x_TD: Tensor, places_i: Tensor, rows: Tensor) -> tuple[Tensor, Deep | None]:
        """Put rows of pictures in their places, and hand over what goes to the decoder's first layers."""
        first, *deeper = rows.to(x_TD.dtype).split(x_TD.shape[-1], dim=-1)
        return x_TD.index_copy(0, places_i, first), Deep(places_i, tuple(deeper)) if deeper else None

    def forward(
        self,
        ids_T: Tensor,
        lengths: Sequence[int] | None = None,
        *,
        state: DecoderState | None = None,
        rows: Sequence[int] | None = None,
        pixels: Tensor | Sequence[Tensor] | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Logits of packed sequences. Without a state: the whole sequences, differentiable. With one: these tokens are
        appended to the state's rows. `pixels` are tiles [n, 3, height, width], or several such tensors where sizes
        differ. `last_only` gives one row of logits per sequence."""
        if not isinstance(ids_T, Tensor) or ids_T.dim() != 1 or ids_T.is_floating_point():
            raise InputError(
                "token ids are one row of whole numbers (1-D); join several sequences and give their lengths"
            )
        lengths = list(lengths) if lengths is not None else [ids_T.shape[0]]
        if sum(lengths) != ids_T.shape[0]:
            raise InputError(f"lengths add up to {sum(lengths)}, and there are {ids_T.shape[0]} token ids")
        tiles = [pixels] if isinstance(pixels, Tensor) else list(pixels or ())
        x, deep = self.merge(ids_T, torch.cat([self.encode_tiles(t) for t in tiles]) if tiles else None)
        shown = self.pictures(ids_T, lengths, [(t.shape[-2], t.shape[-1]) for t in tiles for _ in t])
        if state is None:
            shift_3T = packed_shifts(lengths, shown)[0] if shown is not None else None
            layout = Layout.build(lengths, shift_3T=shift_3T, device=ids_T.device)
            hidden = self.language_model(x, layout, None, deep)
        else:
            layout = state.advance(lengths, rows, shown)
            hidden = self.language_model(x, layout, state.cache, deep)
        if last_only:
            hidden = hidden[layout.starts_S1[1:].long() - 1]
        return self.language_model.logits(hidden)

    def pictures(
        self, ids_T: Tensor, lengths: Sequence[int], sizes: Sequence[tuple[int, int]]
    ) -> list[list[Shown]] | None:
        """Where in each sequence which picture stands, given the sizes (height, width) of all in order. None: the model
        does not ask, its positions are indices."""
        if not self.config.axes:
            return None
        step, remaining = self.config.image.patch_size * self.config.image.downsample, iter(sizes)
        result = []
        for ids in ids_T.split(list(lengths)):
            places, at = (ids == self.config.tokens.image).nonzero()[:, 0].tolist(), 0
            shown: list[Shown] = []
            while at < len(places):
                height, width = next(remaining)
                picture = Shown(places[at], (height // step) * (width // step), 0, height // step, width // step)
                shown.append(picture)
                at += picture.count
            result.append(shown)
        return result
