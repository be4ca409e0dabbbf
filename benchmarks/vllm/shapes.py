"""Folders that vLLM opens without weights: our presets as published, with a tokenizer of bytes and a chat template.

    python benchmarks/vllm/shapes.py shapes holotron-12b holo3.1-35b-a3b         # shapes/holotron-12b/config.json, ...
    python -m vllm.entrypoints.openai.api_server --model shapes/holotron-12b --load-format dummy --trust-remote-code ...

Then `holotron bench sessions --url http://127.0.0.1:8000/v1 --preset http` sends vLLM the pictures that it sends us.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from holotron.model.config import ModelConfig
from holotron.model.families import dump_config
from holotron.model.loading import byte_processor
from holotron.model.presets import preset

# Published Nemotron checkpoints bring such a file; vLLM takes the configuration's class from it.
CONFIGURATION = '''"""Reads config.json for vLLM."""
from transformers import NemotronHConfig, PretrainedConfig


class Configuration(PretrainedConfig):
    model_type = "NemotronH_Nano_VL_V2"

    def __init__(self, llm_config=None, vision_config=None, **values):
        self.llm_config = self.text_config = NemotronHConfig(**(llm_config or {}))
        self.vision_config = PretrainedConfig(**(vision_config or {}))
        super().__init__(**values)

    def get_text_config(self, *args, **kwargs):
        return self.text_config
'''


def add_class(folder: Path) -> None:
    """What vLLM needs beside the config.json of a Nemotron with pictures."""
    (folder / "configuration.py").write_text(CONFIGURATION)
    path = folder / "config.json"
    data = json.loads(path.read_text()) | {"auto_map": {"AutoConfig": "configuration.Configuration"}}
    path.write_text(json.dumps(data, indent=2))


def text_of(config: ModelConfig) -> ModelConfig:
    """The decoder alone, where its family has a form for that."""
    return replace(config, vision=None, projector=None) if config.decoder.mamba is not None else config


def write(config: ModelConfig, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**dump_config(config), "dtype": "bfloat16"}, indent=2))
    byte_processor(config).save(folder)
    if config.vision is not None and config.decoder.mamba is not None:
        add_class(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("presets", nargs="+")
    args = parser.parse_args()
    for name in args.presets:
        write(preset(name), args.folder / name)
        print(args.folder / name)


if __name__ == "__main__":
    main()
