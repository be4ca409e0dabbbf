"""Shared test set-up: GPU tests are skipped, visibly, where there is no GPU; torch stays on the cores it is given."""

from __future__ import annotations

import logging
import os

import hypothesis
import pytest
import torch

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A line for every tensor of a checkpoint, which a failing test would print.
logging.getLogger("c10d-NullHandler-dcp_logger").addFilter(lambda record: False)
hypothesis.settings.register_profile("holotron", deadline=None)  # a busy machine is not a failure
hypothesis.settings.load_profile("holotron")
torch.set_num_threads(1)  # models are tiny: a second thread costs more than it helps, most of all on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA GPU; `make test-gpu` runs it there")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
