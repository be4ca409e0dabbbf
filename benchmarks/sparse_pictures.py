"""How many tokens and tower patches sparse pictures leave of recorded episodes, whole and told as changes.

    python benchmarks/sparse_pictures.py RUN...             # run directories of `holotron rollout`, PNG screenshots
    python benchmarks/sparse_pictures.py --max-tiles 8 RUN

Tokens are of all screenshots of an episode, tags, marks and addresses included; groups are what the tower reads, each
of as many patches as make a token. Tiles that two screens share are counted once for each, as no cache would.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from holotron.model.processor import Deltas, ImageConfig, Processor, decode_image
from holotron.rollouts.store import RunReader

WAYS = {"whole": (False, False), "told as changes": (False, True), "sparse": (True, False), "both": (True, True)}


def told(screens: list, processor: Processor, with_deltas: bool) -> tuple[int, int]:
    """Tokens, and groups that the tower reads."""
    deltas, tokens, groups = Deltas() if with_deltas else None, 0, 0
    assert processor.images is not None
    for screen in screens:
        prompt = processor.encode_image(screen, deltas)
        (image,) = prompt.images
        tokens += len(prompt)
        if processor.images.sparse:
            groups += sum(run.count for run in image.shown)
        else:  # of a tile of which anything is shown the tower reads all
            groups += len({run.tile for run in image.shown}) * processor.images.tokens_per_tile
        deltas = deltas.after(prompt) if deltas is not None else None
    return tokens, groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--tile", type=int, default=320)
    parser.add_argument("--max-tiles", type=int, default=15)
    parser.add_argument("--episodes", type=int, default=100, help="of each run, at most")
    args = parser.parse_args()
    for run in args.runs:
        episodes = []
        for trajectory in RunReader(run).trajectories():
            episodes.append([decode_image(step.observation.image) for step in trajectory.steps])
            if len(episodes) == args.episodes:
                break
        print(f"{run.name}: {len(episodes)} episodes, {sum(map(len, episodes))} screenshots")
        print("| pictures | tokens a screen | of whole | groups the tower reads | of whole |")
        print("|---|---|---|---|---|")
        base: tuple[int, int] | None = None
        for name, (sparse, deltas) in WAYS.items():
            images = ImageConfig(tile_size=args.tile, max_tiles=args.max_tiles, use_thumbnail=False, sparse=sparse)
            processor = Processor.for_bytes(images)
            counts = [told(screens, processor, deltas) for screens in episodes]
            tokens, groups = (sum(part) for part in zip(*counts, strict=True))
            base = base or (tokens, groups)
            screens = sum(map(len, episodes))
            print(
                f"| {name} | {tokens / screens:.0f} | {tokens / base[0]:.1%} | {groups / screens:.0f} | "
                f"{groups / base[1]:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
