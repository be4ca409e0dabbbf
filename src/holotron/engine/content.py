"""What goes into a session's log: text, token ids, images and rendered prompts, made ready before the loop sees them.

Nothing that the network cannot read may get into a batch: it would break the others' iteration too. So everything is
checked here. Decoding and cutting images takes a while; this runs on any thread but the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from holotron.engine.log import Log, TileStore
from holotron.errors import InputError
from holotron.model.model import Holotron
from holotron.model.processor import Deltas, Processor, Prompt

Part = str | Sequence[int] | Prompt | bytes | np.ndarray | Image.Image  # text, token ids, rendered, or an image
Parts = Part | Sequence[Part]


class ContentEncoder:
    def __init__(self, model: Holotron, processor: Processor | None, tiles: TileStore) -> None:
        self._model = model
        self._processor = processor
        self._tiles = tiles

    def encode(self, parts: Parts, deltas: Deltas | None = None, scope: bytes = b"") -> Log:
        """Content as a log keeps it. With `deltas`, images are told as changes to the screen before. Tiles belong to a
        scope, see `prefix`."""
        if self._processor is None:
            return self._encode_all(parts, deltas, scope)
        with self._processor.seen.by(scope):
            return self._encode_all(parts, deltas, scope)

    def _encode_all(self, parts: Parts, deltas: Deltas | None, scope: bytes) -> Log:
        content = Log()
        for part in _as_parts(parts):
            if (
                deltas is not None
                and isinstance(part, bytes | np.ndarray | Image.Image)
                and self._processor is not None
            ):
                prompt = self._processor.encode_image(part, deltas)
                part, deltas = prompt, deltas.after(prompt)
            content.extend(self._encode(part, scope))
        self.check(content)
        return content

    def _encode(self, part: Part, scope: bytes) -> Log:
        if isinstance(part, Prompt):
            return Log.of(part, self._tiles, scope)
        if isinstance(part, list | tuple):
            if bad := [token for token in part if type(token) is not int]:
                raise InputError(f"{bad[0]!r} is not a token id")
            return Log(part)
        if self._processor is None:
            raise InputError("this engine has no processor: append token ids, not text or images")
        if isinstance(part, str):
            return Log(self._processor.encode_text(part))
        if isinstance(part, bytes | np.ndarray | Image.Image):
            return Log.of(self._processor.encode_image(part), self._tiles, scope)
        raise InputError(f"cannot append a {type(part).__name__}: give text, token ids, an image or a Prompt")

    def check(self, content: Log) -> None:
        """Refuse what would break an iteration."""
        config, sees = self._model.config, self._model.vision_model is not None
        if content.tiles and not sees:
            raise InputError(f"{config.name or 'this model'} has no vision tower: it reads text only")
        shown, parts = np.zeros(len(content), bool), np.zeros(len(content), bool)
        for picture in content.pictures:
            parts[picture.start : picture.end] = picture.runs is not None  # changes show parts of tiles
        for span in content.tiles:
            shown[span.start : span.end] = True
            tokens = span.tile.rows
            if span.offset + span.count > tokens or (span.count != tokens and not parts[span.start]):
                raise InputError("the image was cut for another model: its tiles make another number of tokens")
        ids = np.array(content.ids, np.int64)
        wrong = ids[~shown & ((ids < 0) | (ids >= config.decoder.vocab))]
        if wrong.size:
            raise InputError(
                f"{wrong[0]} is not a token id of this model: they go from 0 to {config.decoder.vocab - 1}"
            )
        if sees and (~shown & (ids == config.tokens.image)).any():
            raise InputError(f"token {config.tokens.image} stands for an image; append the image itself")


def _as_parts(parts: Parts) -> Sequence[Part]:
    """One part or several; a list of numbers is one part."""
    if isinstance(parts, list | tuple) and not (parts and isinstance(parts[0], int)):
        return parts
    return [parts]  # type: ignore[list-item]
