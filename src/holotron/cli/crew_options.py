"""Options of commands that play: in how many processes, and on which machines.

@with_crew                           # adds --workers, --ray and hands over one CrewOptions
def rollout(crew: CrewOptions, ...): ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holotron.cli.agent_options import C, replace_parameter
from holotron.errors import ConfigError

if TYPE_CHECKING:
    from holotron.rollouts.processes import Place
    from holotron.rollouts.spread import Playing, ProcessCrew

PANEL = "Machines"
RAY = typer.Option(
    metavar="[ADDRESS]",
    help="Spread over a Ray cluster: its address, or nothing for the one that runs here (or this machine alone).",
    show_default=False,
    rich_help_panel=PANEL,
)


@dataclass(frozen=True, slots=True)
class CrewOptions:
    workers: int | None
    ray: str | None

    def check(self, watch: bool) -> None:
        """A person's hand does not reach into other processes."""
        if watch and (self.workers is not None or self.ray is not None):
            raise ConfigError(
                "--watch steers episodes of this process: leave out --workers and --ray. "
                "A spread run can be looked at as it is recorded: holotron watch RUN"
            )

    def make(self, playing: Playing) -> ProcessCrew | None:
        """Who plays; None: this process alone."""
        from holotron.rollouts.spread import ProcessCrew

        if self.ray is not None:
            from holotron.fleet.ray_place import RayPlace

            cluster = RayPlace(self.ray)
            return ProcessCrew(cluster, playing, self.workers or max(cluster.cores, 1))
        if self.workers is None:
            return None
        from holotron.rollouts.processes import LocalPlace

        place: Place = LocalPlace()
        return ProcessCrew(place, playing, self.workers)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "workers": (
        Annotated[
            int | None,
            typer.Option(
                min=1,
                help="Processes that play, each with browsers of its own.",
                show_default="this one; with --ray one for each core",
                rich_help_panel=PANEL,
            ),
        ],
        None,
    ),
    "ray": (Annotated[str | None, RAY], None),
}


def with_crew(command: C) -> C:
    """The command's parameter `crew` is made of these options."""
    return replace_parameter(command, "crew", _OPTIONS, lambda values: CrewOptions(**values))
