"""Everything between a conversation and the network's input: tokenizer, chat template, images; and replies back.

from holotron.model.processor import Processor
processor = Processor.from_folder("Holotron-12B")
prompt = processor.render([{"role": "user", "content": [{"type": "image", "image": png}, {"type": "text", ...}]}])
"""

from holotron.model.processor.continuation import Transcript
from holotron.model.processor.deltas import Deltas, Run, ShownScreen
from holotron.model.processor.images import ImageLimits, TiledImage, decode_image, normalise, tile_keys, to_tiles
from holotron.model.processor.processor import Processor, Prompt, PromptImage, PromptLimits
from holotron.model.processor.reply import ReplyParser, ReplyPart, ToolCall, parse_reply
from holotron.model.processor.sampling import SamplingDefaults
from holotron.model.processor.template import ChatTemplate
from holotron.model.processor.tiling import ImageConfig, image_tokens, patch_grid, tile_count, tile_grid
from holotron.model.processor.tokenizer import StreamDecoder, Tokenizer, byte_tokenizer

__all__ = [
    "ChatTemplate",
    "Deltas",
    "ImageConfig",
    "ImageLimits",
    "Processor",
    "Prompt",
    "PromptImage",
    "PromptLimits",
    "ReplyParser",
    "ReplyPart",
    "Run",
    "SamplingDefaults",
    "ShownScreen",
    "StreamDecoder",
    "TiledImage",
    "Tokenizer",
    "ToolCall",
    "Transcript",
    "byte_tokenizer",
    "decode_image",
    "image_tokens",
    "normalise",
    "parse_reply",
    "patch_grid",
    "tile_count",
    "tile_grid",
    "tile_keys",
    "to_tiles",
]
