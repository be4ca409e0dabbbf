"""Small checkpoints with pictures, written by us and opened by vLLM: does it read the same prompt and compute the same?

    python benchmarks/vllm/oracle.py write work            # random checkpoints of every family, prompts with pictures
    python benchmarks/vllm/oracle.py ours work             # our token ids and logprobs, in fp32 and in bf16
    python benchmarks/vllm/oracle.py vllm work             # vLLM's; needs a GPU. `transformers` instead needs none
    python benchmarks/vllm/oracle.py compare work          # the table

The measure is our own rounding: how far our bf16 is from our fp32 on the same prompt. vLLM computes in bf16 too and
rounds elsewhere, so it may be as far from our fp32, and hardly farther. Weights are random and of trained size, so that
logprobs are not all alike. The shapes are the smallest that vLLM's kernels take.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from shapes import add_class  # beside this file

FAMILIES = ("nemotron-vl", "qwen3-vl", "qwen3-vl-experts", "qwen3.5", "qwen3.5-experts")
# Of the prompts' pictures, in pixels: whole tiles of Nemotron's and whole squares of Qwen's tower, so only thumbnails
# are resized. vLLM resizes in floats and lets bicubic sums go beyond black and white; the published processors do not.
SIZES = ((128, 128), (256, 128), (384, 256))

# As Qwen's own templates write a picture: its two tags are the template's.
QWEN = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content -%}
{% if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}
{%- endfor %}{% endif %}<|im_end|>
{% endfor -%}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def shape(family: str) -> Any:
    from holotron.model.config import (
        AttentionConfig,
        DecoderConfig,
        DeltaConfig,
        ImageConfig,
        MambaConfig,
        MLPConfig,
        ModelConfig,
        MoEConfig,
        ProjectorConfig,
        QwenVisionConfig,
        TokenIds,
        VisionConfig,
    )
    from holotron.model.processor.smart_resize import MEAN, STD

    tokens = TokenIds(image=256, image_start=257, image_end=258, bos=259, eos=(260,), first_unsampled=None)
    softmax: dict[str, Any] = {"scoring": "softmax", "activation": "swiglu"}
    common: dict[str, Any] = {"vocab": 512, "hidden": 256, "max_positions": 8192}
    if family == "nemotron-vl":
        return ModelConfig(
            name=family,
            decoder=DecoderConfig(
                **common,
                pattern="M-M*-M-M*-",
                mamba=MambaConfig(heads=8, head_dim=64, state=128, groups=2, chunk=128),
                attention=AttentionConfig(4, 2, head_dim=64),
                mlp=MLPConfig(512),
            ),
            # vLLM resamples positions with unaligned corners, for every generation.
            vision=VisionConfig(384, 12, heads=6, mlp=1536, patch=16, grid=128, prefix=10, align_corners=False),
            projector=ProjectorConfig(512),
            image=ImageConfig(tile_size=128, patch_size=16, max_tiles=12),
            tokens=tokens,
        )
    seen = ImageConfig(512, 16, min_pixels=32 * 32, max_pixels=512 * 512, mean=MEAN, std=STD)
    tower = {"hidden": 256, "layers": 4, "heads": 4, "mlp": 512, "patch": 16, "grid": 16}
    experts, newer = family.endswith("experts"), family.startswith("qwen3.5")
    rope: dict[str, Any] = {"rope_theta": 1e4, "qk_norm": True}
    moe = None
    if experts:
        shared = {"shared_width": 128, "shared_gate": True} if newer else {"shared_width": 0}
        moe = MoEConfig(8, top_k=2, width=128, **shared, **softmax)
    ends = "E" if experts else "-"
    return ModelConfig(
        name=family,
        family="qwen3_5_vl" if newer else "qwen3_vl",
        decoder=DecoderConfig(
            **common,
            pattern="".join(mixer + ends for mixer in ("GGG*" * 2 if newer else "****")),
            delta=DeltaConfig(key_heads=2, value_heads=4, key_dim=128, value_dim=128) if newer else None,
            attention=AttentionConfig(4, 2, head_dim=64, rotary_dim=32, gated=True, sections=(6, 5, 5), **rope)
            if newer
            else AttentionConfig(4, 2, head_dim=64, sections=(12, 10, 10), **rope),
            mlp=None if experts else MLPConfig(512, "swiglu"),
            moe=moe,
            eps=1e-6,
            centred_norms=newer,
        ),
        vision=QwenVisionConfig(**tower, deepstack=() if newer else (0, 1, 2)),
        image=seen,
        tokens=tokens,
    )


def write(work: Path, families: list[str]) -> None:
    import torch
    from PIL import Image, ImageDraw, ImageFilter

    from holotron.model.loading import byte_processor
    from holotron.model.processor import Processor
    from holotron.model.processor.template import ChatTemplate
    from holotron.model.weights import random_model, save_checkpoint

    draw = random.Random(0)
    prompts = []
    for size in SIZES:
        picture = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(picture)
        for _ in range(12):
            left, top = draw.randrange(size[0]), draw.randrange(size[1])
            colour = tuple(draw.randrange(256) for _ in range(3))
            pen.rectangle((left, top, left + draw.randrange(4, 60), top + draw.randrange(4, 40)), fill=colour)
        buffer = io.BytesIO()
        picture.filter(ImageFilter.GaussianBlur(2)).save(buffer, "PNG")  # without sharp edges nothing goes beyond
        prompts.append(base64.b64encode(buffer.getvalue()).decode())
    work.mkdir(parents=True, exist_ok=True)
    (work / "pictures.json").write_text(json.dumps(prompts))
    for n, family in enumerate(families):
        config = shape(family)
        model = random_model(config, seed=n).to(torch.bfloat16)
        with torch.no_grad():  # away from the neutral values that new models have
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            for name, parameter in model.named_parameters():
                if name.endswith("mixer.gate.weight"):
                    parameter.mul_(8)  # routers that have made up their minds: rounding should not choose the expert
        folder = work / family
        save_checkpoint(model, folder)
        processor = byte_processor(config)
        if family != "nemotron-vl":
            known = processor.tokenizer
            processor = Processor(known, ChatTemplate(QWEN, known.special, known.image), config.image)
        processor.save(folder)
        if family == "nemotron-vl":
            add_class(folder)
        print(f"{family}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)


def conversations(work: Path) -> list[list[tuple[str, Any]]]:
    """Text alone; one picture; three with text between them. Long enough for means that mean something."""
    pictures = json.loads((work / "pictures.json").read_text())
    draw = random.Random(1)
    story = [" ".join("".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(60)) for _ in range(5)]
    one = [("text", story[1]), ("picture", pictures[0]), ("text", "What is here?")]
    three = [item for n, picture in enumerate(pictures) for item in (("text", story[2 + n]), ("picture", picture))]
    return [[("text", story[0])], one, [*three, ("text", "What changed?")]]


def ours(work: Path, family: str, device: str) -> list[dict[str, Any]]:
    import torch

    from holotron.model.loading import load_model
    from holotron.model.processor.images import normalise

    rows: list[dict[str, Any]] = []
    for dtype in (torch.float32, torch.bfloat16):
        loaded = load_model(str(work / family), device=device, dtype=dtype)
        model, processor = loaded.model, loaded.processor
        for n, parts in enumerate(conversations(work)):
            content = [
                {"type": "text", "text": value}
                if kind == "text"
                else {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{value}"}}
                for kind, value in parts
            ]
            prompt = processor.render([{"role": "user", "content": content}], None, False)
            pixels = [normalise(image.tiles.to(device), model.config.image, dtype) for image in prompt.images]
            with torch.inference_mode():
                logits = model(torch.tensor(prompt.ids, device=device), pixels=pixels or None).float()
            found = logits.log_softmax(-1)[:-1].gather(-1, torch.tensor(prompt.ids[1:], device=device)[:, None])[:, 0]
            name = str(dtype).removeprefix("torch.")
            if dtype is torch.float32:
                rows.append({"ids": prompt.ids, name: found.tolist()})
            else:
                rows[n][name] = found.tolist()
    return rows


def _messages(parts: list[tuple[str, Any]], picture: str) -> list[dict[str, Any]]:
    content = [{"type": "text", "text": v} if k == "text" else {"type": picture} for k, v in parts]
    return [{"role": "user", "content": content}]


def _pictures(parts: list[tuple[str, Any]]) -> list[Any]:
    from PIL import Image

    return [Image.open(io.BytesIO(base64.b64decode(v))).convert("RGB") for k, v in parts if k == "picture"]


def with_vllm(work: Path, family: str) -> list[dict[str, Any]]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams

    folder = str(work / family)
    llm = LLM(
        model=folder,
        trust_remote_code=True,
        dtype="bfloat16",
        max_model_len=4096,
        enforce_eager=True,
        gpu_memory_utilization=0.1,
        kv_cache_memory_bytes=2**30,  # stated, so that several families can be opened side by side
        limit_mm_per_prompt={"image": 4, "video": 0},
        enable_prefix_caching=False,
        **({"gdn_prefill_backend": "triton"} if family.startswith("qwen3.5") else {}),
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    rows = []
    for parts in conversations(work):
        text = tokenizer.apply_chat_template(_messages(parts, "image"), tokenize=False, add_generation_prompt=True)
        prompt: dict[str, Any] = {"prompt": text}
        if pictures := _pictures(parts):
            prompt["multi_modal_data"] = {"image": pictures}
        (result,) = llm.generate([prompt], SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0))
        ids = list(result.prompt_token_ids)
        logprobs = [one[ids[n + 1]].logprob for n, one in enumerate(result.prompt_logprobs[1:])]
        rows.append({"ids": ids, "logprobs": logprobs})
    return rows


def with_transformers(work: Path, family: str) -> list[dict[str, Any]]:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(work / family)
    model = AutoModelForImageTextToText.from_pretrained(work / family, dtype=torch.float32).eval()
    rows = []
    for parts in conversations(work):
        text = processor.apply_chat_template(_messages(parts, "image"), tokenize=False, add_generation_prompt=True)
        inputs = processor(text=[text], images=_pictures(parts) or None, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs).logits[0].float()
        ids = inputs["input_ids"][0]
        found = logits.log_softmax(-1)[:-1].gather(-1, ids[1:, None])[:, 0]
        rows.append({"ids": ids.tolist(), "logprobs": found.tolist()})
    return rows


def compare(work: Path, families: list[str]) -> bool:
    good = True
    print("| family | prompt | tokens | same ids | our bf16 to fp32: mean, worst | theirs to our fp32: mean, worst | |")
    print("|---|---|---|---|---|---|---|")
    for family in families:
        mine = json.loads((work / f"{family}.ours.json").read_text())
        for name in ("vllm", "transformers"):
            path = work / f"{family}.{name}.json"
            if not path.is_file():
                continue
            for what, a, b in zip(("text", "1 picture", "3 pictures"), mine, json.loads(path.read_text()), strict=True):
                same = a["ids"] == b["ids"]
                gap = [abs(x - y) for x, y in zip(a["float32"], a["bfloat16"], strict=True)]
                cells = f"{sum(gap) / len(gap):.4f}, {max(gap):.3f}"
                row = f"| {family}, {name} | {what} | {len(a['ids'])} | {'yes' if same else 'NO'} | {cells}"
                if not same:
                    print(f"{row} | | |")
                    good = False
                    continue
                off = [abs(x - y) for x, y in zip(a["float32"], b["logprobs"], strict=True)]
                close = sum(off) / len(off) <= 1.25 * sum(gap) / len(gap) + 1e-4
                good &= close
                print(f"{row} | {sum(off) / len(off):.4f}, {max(off):.3f} | {'within' if close else 'FARTHER'} |")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "ours", "vllm", "transformers", "compare"])
    parser.add_argument("work", type=Path)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--device", default="cpu", help="of our side")
    args = parser.parse_args()
    families = args.families.split(",")
    if args.what == "write":
        write(args.work, families)
        return
    if args.what == "compare":
        sys.exit(not compare(args.work, families))
    sides = {"vllm": with_vllm, "transformers": with_transformers}
    for family in families:
        rows = ours(args.work, family, args.device) if args.what == "ours" else sides[args.what](args.work, family)
        (args.work / f"{family}.{args.what}.json").write_text(json.dumps(rows))
        print(f"{family}: {[len(row['ids']) for row in rows]} tokens", flush=True)


if __name__ == "__main__":
    main()
