"""Training on a Ray cluster: as many ranks as are wanted, wherever there is room, started by Ray Train.

    train_on_ray("sft", recipe, out, address="auto", ranks=8, device="cuda")

Ray Train places the ranks, introduces them to each other, and starts them all again when one of them or its machine
dies; what they do is what they do under torchrun. A run that is started again goes on from its last checkpoint, so its
folder has to be one that all machines see.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Literal

from holotron.errors import CapacityError, EnvironmentFault, HolotronError
from holotron.fleet.ray_place import RayPlace, connect
from holotron.training.recipe import CommonRecipe, Recipe
from holotron.training.rl.recipe import RlRecipe

log = logging.getLogger(__name__)
Kind = Literal["sft", "rl"]


def train_on_ray(
    kind: Kind, recipe: CommonRecipe, out: Path, *, address: str, ranks: int, device: str | None, restarts: int = 3
) -> None:
    """`device`: cuda (a GPU for each rank) or cpu (a core); None: GPUs, if the cluster has any. `restarts`: of all
    ranks, after the death of one."""
    ray = connect(address)
    have = ray.cluster_resources()
    device = device or ("cuda" if have.get("GPU") else "cpu")
    what = "GPU" if device == "cuda" else "CPU"
    if have.get(what, 0.0) < ranks:
        raise CapacityError(f"{ranks} ranks need {ranks} {what}s, and the cluster has {have.get(what, 0.0):g}")
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    given = {"kind": kind, "recipe": recipe.model_dump_json(), "out": str(out.resolve()), "device": device}
    given |= {"folder": os.getcwd(), "address": address}
    with tempfile.TemporaryDirectory(prefix="holotron-ray-train-") as notes:  # Ray's own; checkpoints are ours
        for left in reversed(range(restarts + 1)):
            trainer = TorchTrainer(
                _rank,
                train_loop_config=given,
                torch_config=TorchConfig(backend="nccl" if device == "cuda" else "gloo", timeout_s=7 * 86_400),
                scaling_config=ScalingConfig(num_workers=ranks, use_gpu=device == "cuda"),
                run_config=RunConfig(
                    name=f"{recipe.name}-{left}", storage_path=notes, failure_config=FailureConfig(max_failures=0)
                ),
            )
            try:
                trainer.fit()
                return
            except Exception as error:  # Ray wraps whatever a rank raised
                found = _ours(error)
                if found is not None or not left:
                    raise found or EnvironmentFault(
                        f"training on Ray ended: {_last_line(error)}. Checkpoints are kept: the same command goes on."
                    ) from error
                log.warning("a rank was lost (%s); all begin again from the last checkpoint", _last_line(error))


def _rank(given: dict[str, Any]) -> None:
    """What every rank does."""
    from holotron.training.distributed import ranks
    from holotron.training.rl.trainer import RlTrainer
    from holotron.training.trainer import Trainer

    os.chdir(given["folder"])  # relative paths in a recipe count from where the command was given
    out = Path(given["out"])
    with ranks(given["device"]) as where:
        if given["kind"] == "sft":
            Trainer(Recipe.model_validate_json(given["recipe"]), out, where).run()
        else:
            recipe = RlRecipe.model_validate_json(given["recipe"])
            place = RayPlace(given["address"], gpus=float(where.device.type == "cuda"))
            RlTrainer(recipe, out, where, place=place).run()


def _ours(error: BaseException) -> HolotronError | None:
    """What a rank said that would be the same the next time."""
    seen: BaseException | None = error
    while seen is not None:
        inside = [seen, *getattr(seen, "worker_failures", {}).values()]
        for one in (*inside, *(getattr(part, "cause", None) for part in inside)):
            if isinstance(one, HolotronError):
                return one
        seen = seen.__cause__ or seen.__context__
    return None


def _last_line(error: BaseException) -> str:
    return ([line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1]
