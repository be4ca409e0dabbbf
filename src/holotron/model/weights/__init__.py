"""Weights on disk: names, loading, saving, random initialisation, model cards, the hub."""

from holotron.model.weights.initialise import random_model
from holotron.model.weights.load import load_checkpoint
from holotron.model.weights.save import save_checkpoint

__all__ = ["load_checkpoint", "random_model", "save_checkpoint"]
