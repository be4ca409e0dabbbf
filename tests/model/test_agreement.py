"""Where a reply ends and what it may hold is said in several files of a checkpoint: all of them together count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from holotron.engine.api import Grammar, SamplingParams
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_sampled
from holotron.errors import CheckpointError, ConfigError, InputError
from holotron.model.loading import Loaded, load_model
from holotron.model.model import Holotron
from holotron.model.processor import ChatTemplate, ImageConfig, Processor, SamplingDefaults
from holotron.model.weights import save_checkpoint
from tests.model.folders import edit, tiny_folder

BYTES = Processor.for_bytes()
IM_END, IM_START = (BYTES.tokenizer.token_id(token) for token in ("<|im_end|>", "<|im_start|>"))
GREEDY = SamplingParams(max_tokens=8, temperature=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


def always_saying(model: Holotron, token: int) -> Holotron:
    """The likeliest token is this one, whatever came before."""
    with torch.no_grad():
        model.language_model.lm_head.weight.zero_()
        model.language_model.backbone.norm_f.weight.zero_()
        model.language_model.backbone.norm_f.weight[0] = 1
        probe = model(torch.tensor([1, 2, 3]))  # zeros; the sign of the one channel that is left is found by trying
        model.language_model.lm_head.weight[token, 0] = 1
        if model(torch.tensor([1, 2, 3]))[-1, token] <= probe[-1, token]:
            model.language_model.lm_head.weight[token, 0] = -1
    return model


@pytest.mark.parametrize("said_in", ["config", "generation_config", "tokenizer_config", "nowhere"])
def test_a_reply_ends_at_any_token_that_some_file_calls_an_end(folder: Path, said_in: str) -> None:
    """Nemotron 3 says 2 in config.json and [2, 11] in generation_config.json; its turns end with 11."""
    edit(folder / "config.json", eos_token_id=[IM_END] if said_in == "config" else [7])
    edit(folder / "generation_config.json", eos_token_id=[7, IM_END] if said_in == "generation_config" else [7])
    edit(folder / "tokenizer_config.json", eos_token="<|im_end|>" if said_in == "tokenizer_config" else None)
    model, processor = load_model(folder, device="cpu")
    assert set(model.config.tokens.eos) == {7, IM_END}  # where nobody says, the template does
    with Engine(always_saying(model, IM_END), processor) as engine:
        (generation,) = engine.complete([1, 2, 3], GREEDY)
        assert generation.result().tokens == (IM_END,)
        assert generation.result().finish_reason == "stop"


def test_what_is_forced_is_the_end_that_the_template_writes(folder: Path) -> None:
    """Not the first of a list: `</s>` in a session's log is nothing that training ever showed."""
    edit(folder / "config.json", eos_token_id=[7, IM_START, IM_END])
    edit(folder / "generation_config.json", eos_token_id=[7, IM_END])
    edit(folder / "tokenizer_config.json", eos_token=None)
    model, processor = load_model(folder, device="cpu")
    assert model.config.tokens.eos[0] == IM_END == processor.end_of_turn
    with Engine(model, processor) as engine:
        (generation,) = engine.complete([1, 2, 3], GREEDY, grammar=Grammar.regex("yes"))
        assert generation.result().tokens == (*b"yes", IM_END)


def test_without_any_end_there_is_one_clear_error_and_only_for_grammars(folder: Path) -> None:
    edit(folder / "config.json", eos_token_id=[])
    (folder / "generation_config.json").unlink()
    edit(folder / "tokenizer_config.json", eos_token=None)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    model, processor = load_model(folder, device="cpu")
    assert model.config.tokens.eos == ()
    with Engine(model, processor) as engine:
        (free,) = engine.complete([1, 2, 3], GREEDY)
        assert free.result().finish_reason == "length"
        with pytest.raises(InputError, match=r"eos_token_id.*generation_config\.json"):
            engine.complete([1, 2, 3], GREEDY, grammar=Grammar.regex("yes"))


def test_the_familys_own_end_counts_where_no_file_says(folder: Path) -> None:
    """Nor the template: it writes replies without a mark behind them."""
    edit(folder / "config.json", **omni_of(folder), eos_token_id=[])
    (folder / "generation_config.json").unlink()
    edit(folder / "tokenizer_config.json", eos_token=None)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    model, processor = load_model(folder, device="cpu")
    assert model.config.family == "nemotron_omni"
    assert processor.end_of_turn is None
    assert model.config.tokens.eos == (IM_END,)


def omni_of(folder: Path) -> dict[str, object]:
    vision = json.loads((folder / "config.json").read_text())["vision_config"]
    return {"model_type": "nemotron_h_omni", "architectures": None, "vision_config": vision | {"min_num_patches": 4}}


def test_an_eos_that_is_no_id_is_named(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=["<|im_end|>"])
    with pytest.raises(ConfigError, match=r"generation_config\.json: eos_token_id"):
        Processor.from_folder(folder)


def test_only_what_cannot_be_said_is_banned(folder: Path) -> None:
    """Ids behind the image token may be real (`<quad>`, `<ref>`, `<box>` in Nemotron's vocabulary)."""
    model, processor = load_model(folder, device="cpu")
    banned = never_sampled(model)
    assert banned is not None
    known = processor.tokenizer.vocab_size
    assert banned.tolist() == [model.config.tokens.image, *range(known, model.config.decoder.vocab)]
    assert processor.tokenizer.token_id("</think>") not in banned  # behind the image token, and a token


# ------------------------------------------------------------------------------------------- pictures, by two files


def test_normalisation_that_only_the_preprocessor_knows(folder: Path) -> None:
    edit(folder / "config.json", norm_mean=None, norm_std=None)
    edit(folder / "preprocessor_config.json", norm_mean=[0.5, 0.4, 0.3], norm_std=[0.2, 0.2, 0.1])
    model, processor = load_model(folder, device="cpu")
    assert (model.config.image.mean, model.config.image.std) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    assert model.config.image == processor.images


def test_a_silent_config_is_checked_against_the_tokenizer(folder: Path) -> None:
    edit(folder / "config.json", img_context_token_id=None)
    with pytest.raises(CheckpointError, match=r"img_context_token_id.*131072.*<image>.*256"):
        Processor.from_folder(folder)


@pytest.mark.parametrize("place", ["vision_config", "args"])
def test_the_patch_range_in_either_place(place: str) -> None:
    limits = {"min_num_patches": 1024, "max_num_patches": 13312}
    config = {"vision_config": limits if place == "vision_config" else {"args": limits}}
    assert ImageConfig.from_hf(config) == ImageConfig(min_patches=1024, max_patches=13312)


# ------------------------------------------------------------------------------------------ sampling and reasoning


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, SamplingDefaults()),
        ({"temperature": 0.6, "top_p": 0.95, "do_sample": True}, SamplingDefaults(0.6, 0.95)),
        ({"do_sample": False, "temperature": 0.6, "top_k": 50}, SamplingDefaults(0.0)),
        ({"top_k": 20.0, "min_p": 0.05}, SamplingDefaults(top_k=20, min_p=0.05)),
        ({"repetition_penalty": 1.05}, SamplingDefaults(repetition_penalty=1.05)),
        ({"do_sample": False, "repetition_penalty": 1.05}, SamplingDefaults(0.0, repetition_penalty=1.05)),
    ],
)
def test_generation_config_is_read_and_kept(folder: Path, said: dict[str, object], meant: SamplingDefaults) -> None:
    edit(folder / "generation_config.json", **said)
    processor = Processor.from_folder(folder)
    assert processor.sampling == meant
    processor.save(folder / "again")
    edit(folder / "again" / "config.json")
    assert Processor.from_folder(folder / "again").sampling == meant


def test_nonsense_in_generation_config_is_named(folder: Path) -> None:
    edit(folder / "generation_config.json", top_p=1.5)
    with pytest.raises(ConfigError, match="top_p must be between 0 and 1"):
        Processor.from_folder(folder)


ON_UNLESS_REFUSED = (
    "{% set on = enable_thinking is not defined or enable_thinking %}"
    "{{ messages[-1].content }}{{ '<think>\n' if on else '<think></think>' }}"
)
# The line and the two endings of Nemotron 3's published template.
AS_NEMOTRON_3 = (
    "{%- set enable_thinking = enable_thinking if enable_thinking is defined else True %}"
    "{{ messages[-1].content }}{%- if enable_thinking %}{{ '<think>\n' }}{%- else %}{{ '<think></think>' }}{%- endif %}"
)
BY_TEXT_AND_ON = (
    "{%- set ns = namespace(on=true) -%}{%- for m in messages -%}{%- if '/no_think' in m.content -%}"
    "{%- set ns.on = false -%}{%- elif '/think' in m.content -%}{%- set ns.on = true -%}{%- endif -%}{%- endfor -%}"
    "{{ messages[-1].content }}{{ '<think>\n' if ns.on else '<think></think>' }}"
)


@pytest.mark.parametrize(
    ("source", "default"),
    [
        (ON_UNLESS_REFUSED, True),
        (AS_NEMOTRON_3, True),
        (BY_TEXT_AND_ON, True),
        ("{{ messages[-1].content }}", False),
        (ChatTemplate.builtin("chatml").source, False),
        (ChatTemplate.builtin("nemotron-vl").source, False),
        (ChatTemplate.builtin("turns").source, False),
    ],
)
def test_reasoning_is_the_templates_choice_when_nobody_says(source: str, default: bool) -> None:
    template = ChatTemplate(source, {"bos_token": "<s>"})
    ask = [{"role": "user", "content": "hello"}]
    assert template.thinks_by_default is default
    assert template.render(ask, thinking=None).endswith("<think>\n") is default
    assert not template.render(ask, thinking=False).endswith("<think>\n")


def test_a_loaded_pair_agrees(folder: Path) -> None:
    """Nothing about the shipped kind of checkpoint changes: one end, bytes, no sampling of its own."""
    loaded: Loaded = load_model(folder, device="cpu")
    assert loaded.model.config.tokens.eos == (IM_END,)
    assert loaded.processor.stop_ids == (IM_END,)
    assert loaded.processor.sampling == SamplingDefaults()


def test_tags_around_pictures_go_by_name(tmp_path: Path) -> None:
    """A configuration that names the picture's token alone; the tags do not follow it in the tokenizer."""
    folder = tmp_path / "model"
    made, _ = load_model("tiny", device="cpu")
    save_checkpoint(made, folder)
    Processor.for_bytes(made.config.image, image=256, image_start=301, image_end=302, bos=259, eos=260).save(folder)
    edit(folder / "config.json", img_start_token_id=None, img_end_token_id=None)
    model, processor = load_model(folder, device="cpu")
    tokens = model.config.tokens
    assert (tokens.image, tokens.image_start, tokens.image_end) == (256, 301, 302)
    picture = {"type": "image", "image": np.zeros((64, 64, 3), np.uint8)}
    assert {301, 302} <= set(processor.render([{"role": "user", "content": [picture]}]).ids)
