"""How many image tokens screenshot deltas save on recorded episodes.

python benchmarks/screenshot_deltas.py FOLDER...        # each folder holds one episode's screenshots
python benchmarks/screenshot_deltas.py --run RUN        # a run directory of `holotron rollout`

For each tolerance: tokens of all screenshots whole and told as changes (marks, addresses and the first screen of each
episode included), the share of tokens saved, tiles the tower still has to read, and how the kept groups split up.
Addresses are counted with the checkpoint's own tokenizer (--tokenizer FOLDER), else as one token a sign.
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from holotron.model.processor import Deltas, ImageConfig, Processor, decode_image
from holotron.model.processor.deltas import changed_groups


@dataclass
class Count:
    screens: int = 0
    whole: int = 0  # tokens
    told: int = 0
    later_whole: int = 0  # of all but the first screens
    later_told: int = 0
    groups: int = 0
    unchanged: int = 0  # groups
    runs: int = 0
    tiles: int = 0
    tiles_read: int = 0


def count(episodes: list[list[np.ndarray]], processor: Processor, tolerance: int) -> Count:
    found = Count()
    config = processor.images
    assert config is not None
    for screens in episodes:
        deltas = Deltas(tolerance)
        for number, screen in enumerate(screens):
            whole = len(processor.encode_image(screen))
            prompt = processor.encode_image(screen, deltas)
            (image,) = prompt.images
            found.screens += 1
            found.whole += whole
            found.told += len(prompt)
            if number:
                assert deltas.screen is not None
                found.later_whole += whole
                found.later_told += len(prompt)
                found.tiles += len(image.keys)
                runs = image.runs
                found.tiles_read += len(image.keys) if runs is None else len({run.tile for run in runs})
                found.runs += 0 if runs is None else len(runs)
                if deltas.screen.size == image.size:
                    changed = changed_groups(deltas.screen.tiles, image.tiles, config, tolerance)
                    found.unchanged += int((~changed).sum())
                    found.groups += changed.numel()
                else:
                    found.groups += whole - 2
            deltas = deltas.after(prompt)
    return found


def folders(paths: list[Path]) -> Iterator[list[np.ndarray]]:
    for path in paths:
        pictures = [p for p in path.iterdir() if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp")]
        pictures.sort(key=lambda p: [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", p.name)])
        if pictures:
            yield [decode_image(picture.read_bytes()) for picture in pictures]


def as_jpeg(screen: np.ndarray, quality: int) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(screen).save(buffer, "JPEG", quality=quality)
    return decode_image(buffer.getvalue())


def recorded(run: Path) -> Iterator[list[np.ndarray]]:
    from holotron.rollouts.store import RunReader

    for trajectory in RunReader(run).trajectories():
        looks = [step.observation for step in trajectory.steps]
        yield [decode_image(look.image) for look in [*looks, *([trajectory.final] if trajectory.final else [])]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="a checkpoint's folder")
    parser.add_argument("--tile", type=int, default=512)
    parser.add_argument("--max-tiles", type=int, default=12)
    parser.add_argument("--tolerances", default="0,4,8")
    parser.add_argument("--jpeg", type=int, metavar="QUALITY", help="encode the screenshots as JPEG first")
    args = parser.parse_args()
    episodes = [*folders(args.folders), *(recorded(args.run) if args.run else ())]
    if args.jpeg:
        episodes = [[as_jpeg(screen, args.jpeg) for screen in screens] for screens in episodes]
    config = ImageConfig(tile_size=args.tile, max_tiles=args.max_tiles)
    processor = Processor.from_folder(args.tokenizer) if args.tokenizer else Processor.for_bytes(config)
    print(f"{len(episodes)} episodes, {sum(map(len, episodes))} screenshots")
    print("| tolerance | whole | told | saved | saved after the first | unchanged | tiles read | runs a screen |")
    print("|---|---|---|---|---|---|---|---|")
    for tolerance in map(int, args.tolerances.split(",")):
        c = count(episodes, processor, tolerance)
        later = max(c.screens - len(episodes), 1)
        print(
            f"| {tolerance} | {c.whole:,} | {c.told:,} | {1 - c.told / c.whole:.1%} | "
            f"{1 - c.later_told / c.later_whole:.1%} | {c.unchanged / c.groups:.1%} | {c.tiles_read / c.tiles:.1%} | "
            f"{c.runs / later:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
