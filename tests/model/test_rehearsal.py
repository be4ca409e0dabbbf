"""What is run to have kernels compiled while weights are read: every kind of layer, on the CPU here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holotron.model.layers import MLP, Attention, Mamba2
from holotron.model.presets import preset
from holotron.model.weights import rehearsal


@pytest.mark.parametrize("name", ["tiny", "tiny-transformer", "tiny-qwen3.5"])
@pytest.mark.parametrize("weight_dtype", [None, torch.float8_e4m3fn])
def test_every_kind_of_layer_reads_a_prompt_and_decodes(
    name: str, weight_dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, int]] = []

    def counted(kind: type) -> Callable:
        plain = kind.forward  # type: ignore[attr-defined]

        def forward(self: torch.nn.Module, x: torch.Tensor, layout: object, *rest: object) -> torch.Tensor:
            ran.append((kind.__name__, layout.num_decodes))  # type: ignore[attr-defined]
            return plain(self, x, layout, *rest)

        return forward

    for kind in (Mamba2, Attention, MLP):
        monkeypatch.setattr(kind, "forward", counted(kind))
    monkeypatch.setattr("holotron.model.native.NativeDecoder.forward", lambda *_: None)
    config = preset(name)
    rehearsal.rehearse(config, torch.device("cpu"), torch.float32, weight_dtype, prompts=(40, 9))
    letters = {"M": "Mamba2", "*": "Attention", "-": "MLP"}
    wanted = {letters[letter] for letter in config.decoder.pattern if letter in letters}
    assert {kind for kind, _ in ran} == wanted
    for kind in wanted:
        assert [decodes for other, decodes in ran if other == kind] == [0, 2, 1]


def test_only_where_there_is_a_gpu() -> None:
    config = preset("tiny")
    assert rehearsal.rehearse_in_background(config, torch.device("cpu"), torch.bfloat16, None) is None
