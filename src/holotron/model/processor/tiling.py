"""How an image of any size becomes squares the vision tower can read. Pure arithmetic: no pixels here.

Three rules exist in the family, and the checkpoint's files say which one it was trained with.

**Tiles** (Holotron-12B): the image is stretched onto the grid of tiles whose shape is nearest to its own,
at most `max_tiles` of them, and one thumbnail of the whole image follows. A 1920x1080 screenshot becomes
4x2 tiles and a thumbnail: 9 tiles of 256 tokens. The rule has a cliff worth knowing: 1280x720 is *shrunk*
to 2x1 tiles (768 tokens) while 1280x800 becomes 3x2 (1792 tokens).

**Dynamic resolution** (Nemotron 3 Nano Omni): one resize to a whole number of patches, near the image's own
size, with a least and a greatest number of patches; no tiles, no thumbnail.

**Smart resize** (Qwen3-VL, Qwen3.5): the same with a least and a greatest number of pixels, each side rounded to whole
tokens (32 pixels); see `smart_resize`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from holotron.errors import ConfigError
from holotron.model.processor.smart_resize import CLASS_PIXELS, MEAN, PIXELS, STD, smart_resize

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

BICUBIC = (3, "bicubic")  # as Pillow and transformers call it
# Under which names both files may say the same thing.
_TWICE = (
    ("force_image_size", "image_size"),
    ("max_num_tiles",),
    ("use_thumbnail",),
    ("downsample_ratio",),
    ("norm_mean", "image_mean"),
    ("norm_std", "image_std"),
    ("min_num_patches",),
    ("max_num_patches",),
)

LARGEST_TILE = 16_384  # pixels a side
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # tiles, rows and columns in token streams


@dataclass(frozen=True)
class ImageConfig:
    """What the vision tower expects of its pixels."""

    tile_size: int = 512
    patch_size: int = 16
    downsample: int = 2  # a square of this many patches a side becomes one token
    max_tiles: int = 12  # the thumbnail comes on top
    use_thumbnail: bool = True
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    # Both set: dynamic resolution instead of tiles. A greatest number of 0 means no cap.
    min_patches: int | None = None
    max_patches: int | None = None
    # Or these two set: dynamic resolution by smart resize.
    min_pixels: int | None = None
    max_pixels: int | None = None
    # Squares of one colour that go on from the one before are left out, of the stream and of the tower; see `sparse`.
    sparse: bool = False

    def __post_init__(self) -> None:
        step = self.patch_size * self.downsample
        if min(self.tile_size, self.patch_size, self.downsample, self.max_tiles) < 1 or self.tile_size > LARGEST_TILE:
            raise ConfigError(
                f"tile, patch, downsampling and tile count must be positive, a tile at most {LARGEST_TILE} wide: {self}"
            )
        if self.tile_size % step:
            raise ConfigError(
                f"tile size {self.tile_size} is not a multiple of patch size {self.patch_size} x "
                f"downsampling {self.downsample}; tokens would not fill the tile"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ConfigError(f"mean and std need three channels each, std above zero: {self.mean}, {self.std}")
        if (self.min_patches is None) != (self.max_patches is None):
            raise ConfigError("dynamic resolution needs both a least and a greatest number of patches")
        if self.min_pixels is not None or self.max_pixels is not None:
            if not 0 < (self.min_pixels or 0) <= (self.max_pixels or 0):
                raise ConfigError(
                    f"smart resize needs 0 < min_pixels <= max_pixels: {self.min_pixels}, {self.max_pixels}"
                )
            if self.min_patches is not None:
                raise ConfigError("give a range of patches or a range of pixels, not both")
        if self.sparse and self.dynamic:
            raise ConfigError("sparse pictures are cut into tiles; this model has dynamic resolution")
        if self.sparse and self.max_tiles + self.use_thumbnail > len(SIGNS):
            raise ConfigError(
                f"sparse pictures have {len(SIGNS)} tiles at most, thumbnail included, not {self.max_tiles}: each is "
                "named by one sign"
            )

    @property
    def dynamic(self) -> bool:
        return self.min_patches is not None or self.min_pixels is not None

    @property
    def most_patches(self) -> int:
        """Of one tile, or of one picture at dynamic resolution (0: without a cap)."""
        if self.max_pixels is not None:
            return self.max_pixels // self.patch_size**2
        return (self.max_patches or 0) if self.dynamic else (self.tile_size // self.patch_size) ** 2

    @property
    def tokens_per_tile(self) -> int:
        return (self.tile_size // self.patch_size // self.downsample) ** 2

    def tokens(self, height: int, width: int) -> int:
        """Tokens of one picture at its final size: a tile, or a whole image at dynamic resolution."""
        step = self.patch_size * self.downsample
        return (height // step) * (width // step)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> ImageConfig:
        """From a checkpoint's `config.json`, and its `preprocessor_config.json` where that is silent; the absent keeps
        its default."""
        given: dict[str, Any] = {}
        preprocessor = preprocessor or {}
        _check_steps(preprocessor)
        config = {**preprocessor, **{key: value for key, value in config.items() if value is not None}}
        merge = (config.get("vision_config") or {}).get("spatial_merge_size") or config.get("merge_size")
        if merge is not None:
            return cls._smart(config, int(_number("spatial_merge_size", merge)), said=bool(preprocessor))

        def take(name: str, *keys: str) -> None:
            for key in keys:
                if config.get(key) is not None:
                    given[name] = config[key]
                    return

        take("tile_size", "force_image_size", "image_size")
        take("patch_size", "patch_size")
        take("max_tiles", "max_num_tiles")
        take("use_thumbnail", "use_thumbnail")
        take("mean", "norm_mean", "image_mean")
        take("std", "norm_std", "image_std")
        take("sparse", "sparse_pictures")
        take("min_patches", "min_num_patches")
        take("max_patches", "max_num_patches")
        vision = config.get("vision_config") or {}
        # The patch range sits in one of these in Omni checkpoints; its presence is what selects dynamic resolution.
        for place in (vision, vision.get("args")):
            if isinstance(place, Mapping) and place.get("min_num_patches"):
                given["min_patches"] = place["min_num_patches"]
                given["max_patches"] = place.get("max_num_patches") or 0
        if (ratio := config.get("downsample_ratio")) is not None:
            if not 0 < _number("downsample_ratio", ratio) <= 1:
                raise ConfigError(f"the image setting downsample_ratio must be in (0, 1], found {ratio}")
            given["downsample"] = round(1 / ratio)
        for name in ("mean", "std"):
            if name in given:
                given[name] = _colours(name, given[name])
        for name, key in (("use_thumbnail", "use_thumbnail"), ("sparse", "sparse_pictures")):
            if name in given:
                given[name] = _flag(key, given[name])
        for name in given.keys() - {"mean", "std", "use_thumbnail", "sparse"}:
            given[name] = int(_number(name, given[name]))
        if "min_patches" in given:
            given.setdefault("max_patches", 0)
            if (context := preprocessor.get("max_model_len")) is not None:  # a picture has to fit into it
                fitting = (int(_number("max_model_len", context)) - 4) * given.get("downsample", cls.downsample) ** 2
                most = max(fitting, given["min_patches"])
                given["max_patches"] = min(given["max_patches"] or most, most)
        return cls(**given)

    @classmethod
    def _smart(cls, config: Mapping[str, Any], merge: int, *, said: bool) -> ImageConfig:
        """Qwen's files. The range of pixels goes by two pairs of names; the older ones win, as in transformers. `said`:
        there is a file about pictures, and what it leaves out is what transformers' class has for it; without any, it
        is as the models are published."""
        pixels, mean, std = (CLASS_PIXELS, CLIP_MEAN, CLIP_STD) if said else (PIXELS, MEAN, STD)
        size = config.get("size") or pixels
        if not isinstance(size, Mapping):
            raise ConfigError(f"the image setting size must be an object, found {size!r}")
        edges: dict[str, float] = {}
        for name, old in (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels")):
            value = config.get(old) or size.get(name)
            if value is None:
                raise ConfigError(f"the image setting size must have shortest_edge and longest_edge, found {size!r}")
            edges[name] = _number(name, value)
        patch = int(_number("patch_size", (config.get("vision_config") or config).get("patch_size") or 16))
        return cls(
            tile_size=16 * patch * merge,
            patch_size=patch,
            downsample=merge,
            mean=_colours("image_mean", config.get("image_mean") or mean),
            std=_colours("image_std", config.get("image_std") or std),
            min_pixels=int(edges["shortest_edge"]),
            max_pixels=int(edges["longest_edge"]),
            sparse=_flag("sparse_pictures", config.get("sparse_pictures", False)),
        )

    def to_hf(self) -> dict[str, Any]:
        """The same values under the names of a `preprocessor_config.json`."""
        if self.min_pixels is not None:
            return {
                "image_processor_type": "Qwen2VLImageProcessorFast",
                "processor_class": "Qwen3VLProcessor",
                "size": {"shortest_edge": self.min_pixels, "longest_edge": self.max_pixels},
                "patch_size": self.patch_size,
                "temporal_patch_size": 2,
                "merge_size": self.downsample,
                "image_mean": list(self.mean),
                "image_std": list(self.std),
            }
        values: dict[str, Any] = {
            "image_size": self.tile_size,
            "patch_size": self.patch_size,
            "downsample_ratio": 1 / self.downsample,
            "max_num_tiles": self.max_tiles,
            "use_thumbnail": self.use_thumbnail,
            "norm_mean": list(self.mean),
            "norm_std": list(self.std),
        }
        if self.sparse:
            values["sparse_pictures"] = True
        if self.dynamic:
            values |= {"min_num_patches": self.min_patches, "max_num_patches": self.max_patches}
        return values


def _check_steps(preprocessor: Mapping[str, Any]) -> None:
    """What is done to a picture is fixed here; files may say the same, and nothing else."""
    factor = preprocessor.get("rescale_factor")
    known = {
        "do_resize": (None, True),
        "do_rescale": (None, True),
        "do_normalize": (None, True),
        "resample": (None, *BICUBIC),
        "rescale_factor": (factor if isinstance(factor, float) and math.isclose(factor, 1 / 255) else None,),
    }
    for name, computed in known.items():
        if (value := preprocessor.get(name)) not in computed:
            raise ConfigError(
                f"the image setting {name} {value!r} is not supported: pictures are resized bicubically (3), scaled by "
                "1/255 and normalised"
            )


def disagreements(config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> list[str]:
    """What the two files say differently of pictures. Other tools follow one or the other."""
    vision = config.get("vision_config")
    vision = vision if isinstance(vision, Mapping) else {}
    inner = vision.get("args")
    places = (inner if isinstance(inner, Mapping) else {}, vision, config)
    found = []
    for names in _TWICE:
        mine = next((place[name] for place in places for name in names if place.get(name) is not None), None)
        other = next((preprocessor[name] for name in names if preprocessor.get(name) is not None), None)
        if mine is not None and other is not None and mine != other:
            found.append(
                f"{names[0]} is {mine} in config.json, which counts, and {other} in the image processor's file"
            )
    return found


def _colours(name: str, values: Any) -> tuple[float, float, float]:
    if not isinstance(values, list | tuple) or len(values) != 3:
        raise ConfigError(f"the image setting {name} must be three numbers, found {values!r}")
    red, green, blue = (_number(name, value) for value in values)
    return red, green, blue


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"the image setting {name} must be true or false, found {value!r}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"the image setting {name} must be a number, found {value!r}")
    return value


@cache
def _grids(max_tiles: int) -> tuple[tuple[int, int], ...]:
    """Every (columns, rows) with at most `max_tiles` tiles, smallest area first."""
    grids = ((c, r) for c in range(1, max_tiles + 1) for r in range(1, max_tiles + 1) if c * r <= max_tiles)
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def tile_grid(width: int, height: int, config: ImageConfig) -> tuple[int, int]:
    """(columns, rows) of tiles: the grid nearest in shape; of equals the largest that is half filled."""
    aspect = width / height
    best, best_miss = (1, 1), math.inf
    for columns, rows in _grids(config.max_tiles):
        miss = abs(aspect - columns / rows)
        half_filled = width * height > 0.5 * config.tile_size**2 * columns * rows
        if miss < best_miss or (miss == best_miss and half_filled):
            best, best_miss = (columns, rows), miss
    return best


def tile_count(width: int, height: int, config: ImageConfig) -> int:
    """Tiles of an image, its thumbnail included."""
    columns, rows = tile_grid(width, height, config)
    return columns * rows + (config.use_thumbnail and columns * rows > 1)


def patch_grid(width: int, height: int, config: ImageConfig) -> tuple[int, int]:
    """(columns, rows) of patches at dynamic resolution, both multiples of the downsampling."""
    if config.min_pixels is not None and config.max_pixels is not None:
        step = config.patch_size * config.downsample
        width, height = smart_resize(width, height, step, config.min_pixels, config.max_pixels)
        return width // config.patch_size, height // config.patch_size
    if config.min_patches is None:
        raise ConfigError("this model cuts its images into tiles; it has no dynamic resolution")
    least, most = config.min_patches, config.max_patches or math.inf
    # Half to even, as published: a side of an even number of patches stays, of an odd number gains one.
    columns = round(width / config.patch_size + 0.5)
    rows = round(height / config.patch_size + 0.5)

    shrink = min(math.sqrt(most / (columns * rows)), 1.0)
    # A thread-thin image must not shrink to nothing on its short side.
    columns, rows = max(1, math.floor(shrink * columns)), max(1, math.floor(shrink * rows))
    if columns * rows < least < most:
        grow = math.sqrt(least / (columns * rows))
        columns, rows = math.ceil(grow * columns), math.ceil(grow * rows)

    step = config.downsample
    rows = _even_out(rows, step, fits=lambda new: new * columns <= most)
    columns = _even_out(columns, step, fits=lambda new: new * rows <= most)
    return columns, rows


def _even_out(side: int, step: int, fits: Callable[[int], bool]) -> int:
    """The next multiple of `step`, upwards if that still fits the budget."""
    up = -(-side // step) * step
    return up if fits(up) else max(step, side // step * step)


def image_tokens(width: int, height: int, config: ImageConfig) -> int:
    """Tokens an image of this size costs, without the two tags around it; the most that a sparse one can."""
    if config.dynamic:
        columns, rows = patch_grid(width, height, config)
        return (columns // config.downsample) * (rows // config.downsample)
    return tile_count(width, height, config) * (config.tokens_per_tile + config.sparse)  # with the sign of its tile
