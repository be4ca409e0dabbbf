from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend

from holotron.errors import CheckpointError, ConfigError
from holotron.model.processor import ChatTemplate, ImageConfig, Processor
from tests.model.processor.test_images import picture

MESSAGES = [{"role": "system", "content": "Act."}, {"role": "user", "content": "Click <s> 🙂"}]


def write(folder: Path, backend: Backend, **files) -> Path:
    """A checkpoint folder by hand, in the published layout."""
    backend.save(str(folder / "tokenizer.json"))
    for name, value in files.items():
        if name == "chat_template_jinja":
            (folder / "chat_template.jinja").write_text(value)
        else:
            (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


SETTINGS = {
    "bos_token": {"content": "<s>", "special": True, "__type": "AddedToken"},
    "eos_token": "<SPECIAL_12>",
    "unk_token": None,
    "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}",
}


def test_a_published_style_folder(tmp_path, backend):
    vision = {
        "vision_config": {"args": {"model": "vit_huge_patch16_224"}},
        "force_image_size": 256,
        "max_num_tiles": 6,
        "img_context_token_id": backend.token_to_id("<image>"),
        "llm_config": {"eos_token_id": 2},
        "time_step_limit": [0.0, float("inf")],  # not strict JSON, as published
    }
    folder = write(
        tmp_path,
        backend,
        config=vision,
        tokenizer_config=SETTINGS,
        generation_config={"eos_token_id": [2, 11]},
        preprocessor_config={"norm_mean": [0.5, 0.5, 0.5], "max_num_tiles": 99},
    )
    processor = Processor.from_folder(folder)
    assert processor.images == ImageConfig(tile_size=256, max_tiles=6, mean=(0.5, 0.5, 0.5))
    assert processor.tokenizer.eos_ids == {2, 11, backend.token_to_id("<SPECIAL_12>")}
    assert processor.tokenizer.bos_id == 1
    assert processor.render([{"role": "user", "content": "a"}]).text == "<s>[a]"


def test_the_jinja_file_comes_first(tmp_path, backend):
    folder = write(tmp_path, backend, tokenizer_config=SETTINGS, chat_template_jinja="from the file")
    assert Processor.from_folder(folder).template.source == "from the file"


def test_other_places_of_the_template(tmp_path, backend):
    folder = write(tmp_path, backend, chat_template={"chat_template": "json"})
    assert Processor.from_folder(folder).template.source == "json"
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (folder / "chat_template.json").unlink()
    folder = write(tmp_path, backend, tokenizer_config={"chat_template": several})
    assert Processor.from_folder(folder).template.source == "d"


TOOLS = [{"type": "function", "function": {"name": "click", "parameters": {}}}]


@pytest.mark.parametrize("place", ["tokenizer_config", "processor_config", "additional_chat_templates"])
def test_a_template_for_tools(tmp_path, backend, place):
    """Where there are tools, the one of that name is taken, as transformers takes it; saving keeps both."""
    several = {"default": "plain", "tool_use": "{{ tools[0].function.name }}"}
    if place == "tokenizer_config":
        listed = [{"name": name, "template": text} for name, text in several.items()]
        write(tmp_path, backend, tokenizer_config={**SETTINGS, "chat_template": listed})
    elif place == "processor_config":
        write(tmp_path, backend, tokenizer_config=SETTINGS, processor_config={"chat_template": several})
    else:
        write(tmp_path, backend, tokenizer_config=SETTINGS, chat_template_jinja=several["default"])
        (tmp_path / place).mkdir()
        (tmp_path / place / "tool_use.jinja").write_text(several["tool_use"])
    processor = Processor.from_folder(tmp_path)
    processor.save(tmp_path / "again")
    for either in (processor, Processor.from_folder(tmp_path / "again")):
        assert either.render([{"role": "user", "content": "a"}]).text == "plain"
        assert either.render([{"role": "user", "content": "a"}], tools=TOOLS).text == "click"


def test_templates_of_which_none_is_the_default(tmp_path, backend):
    """One alone is meant, whatever it is called; of several nobody could say which."""
    alone = [{"name": "chat", "template": "c"}]
    folder = write(tmp_path, backend, tokenizer_config={"chat_template": alone})
    assert Processor.from_folder(folder).template.source == "c"
    several = [*alone, {"name": "rag", "template": "r"}]
    write(folder, backend, tokenizer_config={"chat_template": several})
    with pytest.raises(CheckpointError, match="of the chat templates chat, rag none is called default"):
        Processor.from_folder(folder)
    write(folder, backend, tokenizer_config={"chat_template": [{"template": "r"}]})
    with pytest.raises(CheckpointError, match="must be a text, found list"):
        Processor.from_folder(folder)


def test_special_tokens_map_fills_gaps(tmp_path, backend):
    folder = write(
        tmp_path,
        backend,
        tokenizer_config={"eos_token": "<SPECIAL_12>", "bos_token": None},
        special_tokens_map={"bos_token": "<s>", "eos_token": "</s>"},
    )
    assert Processor.from_folder(folder).tokenizer.special == {"bos_token": "<s>", "eos_token": "<SPECIAL_12>"}


def test_without_a_template_the_tokens_choose_ours(tmp_path, backend):
    processor = Processor.from_folder(write(tmp_path, backend, tokenizer_config={"bos_token": "<s>"}))
    assert processor.template.source == ChatTemplate.builtin("nemotron-vl").source
    assert processor.images is None
    chatml = Processor.for_bytes()
    chatml.tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    assert Processor.from_folder(tmp_path).template.source == ChatTemplate.builtin("chatml").source


@pytest.mark.parametrize("images", [None, ImageConfig(64, 8, 2, 4), ImageConfig(min_patches=16, max_patches=64)])
def test_saved_and_read_back(tmp_path, tokenizer, images):
    processor = Processor(tokenizer, ChatTemplate.builtin("nemotron-vl", tokenizer.special), images)
    processor.save(tmp_path / "model")
    again = Processor.from_folder(tmp_path / "model")
    assert again.images == images
    assert again.template.source == processor.template.source
    assert again.tokenizer.special == tokenizer.special
    assert again.tokenizer.eos_ids == tokenizer.eos_ids
    messages = [*MESSAGES, {"role": "user", "content": [{"type": "image", "image": picture()}]}] if images else MESSAGES
    assert again.render(messages).ids == processor.render(messages).ids


@pytest.mark.parametrize("kind", ["bytes", "nemotron"])
def test_transformers_reads_what_we_save(tmp_path, tokenizer, kind):
    from transformers import AutoTokenizer

    processor = (
        Processor.for_bytes()
        if kind == "bytes"
        else Processor(tokenizer, ChatTemplate.builtin("nemotron-vl", tokenizer.special))
    )
    processor.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": "user", "content": "Click 🙂"}]
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    prompt = processor.render(messages)
    assert text == prompt.text
    assert theirs.encode(text, add_special_tokens=False) == prompt.ids
    assert theirs.eos_token_id in processor.tokenizer.eos_ids


# ---------------------------------------------------------------------------------------------------------- bad folders


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Processor.from_folder(tmp_path)


def test_image_ids_have_to_agree(tmp_path, backend):
    folder = write(tmp_path, backend, config={"force_image_size": 512, "img_context_token_id": 131_072})
    with pytest.raises(CheckpointError, match="img_context_token_id = 131072"):
        Processor.from_folder(folder)


def test_tokens_without_a_template_of_ours(tmp_path, backend):
    saved = json.loads(backend.to_str())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if "SPECIAL" not in token["content"]]
    saved["model"]["vocab"].pop("<SPECIAL_11>")
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match=r"chat_template\.jinja"):
        Processor.from_folder(tmp_path)


def test_broken_json_is_named(tmp_path, backend):
    folder = write(tmp_path, backend)
    (folder / "generation_config.json").write_text("{oops")
    with pytest.raises(ConfigError, match=r"generation_config\.json.*line 1"):
        Processor.from_folder(folder)
