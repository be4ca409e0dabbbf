"""What an option costs in agreement: the same tokens through the network with and without it.

Sequences of random tokens are read as a prompt and then token by token, the way an engine decodes, always continuing
with what the plain network says. Reported for the decoded tokens: how far the logits are off, how far the distribution
(KL divergence), and how often both have the same favourite. Random weights are the hardest case for the last: their
logits lie close together.

Legend: S sequences, L prompt tokens, n decoded tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.model.cache import Cache
from holotron.model.model import Holotron

PAGE = 64


@torch.inference_mode()
def decode_logits(model: Holotron, ids_SL: Tensor, count: int, fed_nS: Tensor | None = None, **options: Any) -> Tensor:
    """Logits [n, S, V] of `count` tokens after the prompts, each fed from `fed_nS` or, without it, greedily.
    `options` are those of `Cache.allocate`."""
    decoder, (sequences, length) = model.language_model, ids_SL.shape
    pages = -(-(length + count) // PAGE)
    cache = Cache.allocate(
        decoder.config,
        rows=sequences,
        pages=sequences * pages,
        page_size=PAGE,
        dtype=model.dtype,
        device=model.device,
        **options,
    )
    tables = [list(range(s * pages, (s + 1) * pages)) for s in range(sequences)]

    def layout(lengths: list[int], context: int) -> Layout:
        contexts = [context] * sequences
        return Layout.build(lengths, contexts=contexts, pages=tables, page_size=PAGE, device=model.device)

    hidden = decoder(decoder.embed(ids_SL.flatten()), layout([length] * sequences, 0), cache)
    logits = [decoder.logits(hidden.unflatten(0, (sequences, length))[:, -1]).float()]
    for n in range(count - 1):
        token_S = fed_nS[n] if fed_nS is not None else logits[-1].argmax(-1)
        hidden = decoder(decoder.embed(token_S), layout([1] * sequences, length + n), cache)
        logits.append(decoder.logits(hidden).float())
    return torch.stack(logits)


def compare(exact_nSV: Tensor, other_nSV: Tensor) -> dict[str, float]:
    p, q = exact_nSV.log_softmax(-1), other_nSV.log_softmax(-1)
    return {
        "logit_error": float((other_nSV - exact_nSV).norm() / exact_nSV.norm()),
        "kl": float((p.exp() * (p - q)).sum(-1).mean()),
        "same_favourite": float((exact_nSV.argmax(-1) == other_nSV.argmax(-1)).float().mean()),
    }


def measure(model: Holotron, *, sequences: int = 4, prompt: int = 1024, count: int = 48) -> dict[str, dict[str, float]]:
    """Every option against the network as it is. Leaves the model with 8-bit projections."""
    vocab = model.config.decoder.vocab
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, vocab, (sequences, prompt), generator=generator).to(model.device)
    exact = decode_logits(model, ids, count)
    fed = exact.argmax(-1)
    kv8 = {"kv_dtype": torch.float8_e4m3fn}
    found = {
        "the same again": compare(exact, decode_logits(model, ids, count, fed)),
        "16-bit state": compare(exact, decode_logits(model, ids, count, fed, state_dtype=torch.bfloat16)),
        "8-bit keys and values": compare(exact, decode_logits(model, ids, count, fed, **kv8)),
        "replay": compare(exact, decode_logits(model, ids, count, fed, replay=True)),
    }
    model.language_model.quantize()
    found["8-bit projections"] = compare(exact, decode_logits(model, ids, count, fed))
    found["all three"] = compare(exact, decode_logits(model, ids, count, fed, replay=True, **kv8))
    return found
