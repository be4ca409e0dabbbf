"""An episode as a GIF: what was seen, where it acted, in which words. `holotron report RUN --out episode.gif`.

made = write_gif(Path("runs/demo"), Path("episode.gif"), episode="sites/shop-add/3")
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from holotron.agent.describe import describe
from holotron.errors import ConfigError
from holotron.quoting import one_line
from holotron.rollouts.records import Row
from holotron.rollouts.store import RunReader
from holotron.storage.files import replace_file
from holotron.types import Observation, Outcome, Trajectory

STEP_SECONDS, LAST_SECONDS = 1.2, 3.0
COLOURS = 96  # of a frame; web pages have few, and every one costs
PAPER, INK, MARK = "#20242c", "#f4f4f4", "#e5383b"
Font = ImageFont.ImageFont | ImageFont.FreeTypeFont
VERDICTS = {Outcome.SUCCESS: "#3fb950", Outcome.FAILURE: "#ff7b72"}


@dataclass(frozen=True, slots=True)
class MadeGif:
    path: Path
    episode: str
    frames: int
    bytes: int


def write_gif(run: Path, out: Path, *, episode: str = "", width: int = 640) -> MadeGif:
    """`episode`: the id of one, or how it begins; without, the longest of those that succeeded."""
    reader = RunReader(run)
    chosen = _chosen(reader.episodes(), episode, run)
    trajectory = next(reader.trajectories(where=lambda row: row["id"] == chosen))
    shown = list(_frames(trajectory, width))
    # All of one size: phones may turn, and windows may open, on the way.
    size = (width, max(frame.height for frame, _ in shown))
    frames = [_on(frame, size).quantize(COLOURS, dither=Image.Dither.NONE) for frame, _ in shown]
    buffer = io.BytesIO()
    durations = [int(1000 * seconds) for _, seconds in shown]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    replace_file(out, buffer.getvalue())
    return MadeGif(out, chosen, len(frames), len(buffer.getvalue()))


def _chosen(rows: list[Row], wanted: str, run: Path) -> str:
    fitting = [
        row for row in rows if (row["id"].startswith(wanted) and row["final"] is not None) or row["id"] == wanted
    ]
    if not fitting:
        begins = f" that begins with {wanted!r}" if wanted else ""
        some = ", ".join(row["id"] for row in rows[:3])
        raise ConfigError(f"{run} has no finished episode{begins}" + (f"; it has {some} ..." if some else ""))
    return str(max(fitting, key=lambda row: (row["id"] == wanted, bool(row["success"]), row["steps"]))["id"])


def _frames(trajectory: Trajectory, width: int) -> Iterator[tuple[Image.Image, float]]:
    """Every frame with its seconds on the screen."""
    font = ImageFont.load_default(size=max(11, width // 45))
    goal = trajectory.task.goal
    for number, step in enumerate(trajectory.steps, 1):
        action = step.reply.action
        picture, scale = _picture(step.observation, width)
        for point in _points(action):
            _mark(picture, point, scale)
        said = describe(action) if action is not None else "no valid action"
        yield _captioned(picture, width, goal, f"{number}  {said}", INK, font), STEP_SECONDS
    last = trajectory.final or (trajectory.steps[-1].observation if trajectory.steps else None)
    if last is not None:
        answer = f": {one_line(trajectory.answer, 80)}" if trajectory.answer else ""
        ending = f"{trajectory.outcome.value}{answer}"
        colour = VERDICTS.get(trajectory.outcome, INK)
        yield _captioned(_picture(last, width)[0], width, goal, ending, colour, font), LAST_SECONDS


def _picture(observation: Observation, width: int) -> tuple[Image.Image, float]:
    """The screenshot, and how many of its pixels a CSS pixel has. One of a phone is as high as others are wide."""
    with Image.open(io.BytesIO(observation.image)) as image:
        picture = image.convert("RGB")
    side = round(width * min(1.0, picture.width / picture.height))
    picture = picture.resize((side, round(picture.height * side / picture.width)), Image.Resampling.LANCZOS)
    return picture, side / observation.viewport[0]


def _points(action: object) -> list[tuple[float, float]]:
    pairs = [(getattr(action, x, None), getattr(action, y, None)) for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"))]
    return [(float(x), float(y)) for x, y in pairs if x is not None and y is not None]


def _mark(picture: Image.Image, point: tuple[float, float], scale: float) -> None:
    x, y, radius = point[0] * scale, point[1] * scale, max(7.0, picture.width / 70)
    draw = ImageDraw.Draw(picture)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline="white", width=4)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=MARK, width=3)
    draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=MARK)


def _captioned(picture: Image.Image, width: int, goal: str, said: str, colour: str, font: Font) -> Image.Image:
    """The goal above, what is done below, both cut to a line."""
    line = round(1.7 * font.getbbox("Ag")[3])
    frame = Image.new("RGB", (width, picture.height + 2 * line), PAPER)
    frame.paste(picture, ((width - picture.width) // 2, line))
    draw, gap = ImageDraw.Draw(frame), line // 5
    for text, top, ink in ((goal, 0, INK), (said, line + picture.height, colour)):
        draw.text((2 * gap, top + gap), _fitting(one_line(text, 300), width - 4 * gap, font), fill=ink, font=font)
    return frame


def _fitting(text: str, width: int, font: Font) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text + "..."


def _on(frame: Image.Image, size: tuple[int, int]) -> Image.Image:
    whole = Image.new("RGB", size, PAPER)
    whole.paste(frame, ((size[0] - frame.width) // 2, 0))
    return whole
