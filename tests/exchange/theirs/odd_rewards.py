"""Several turns, driven by an environment of its own, with rewards far outside 0 to 1."""

from typing import Any

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]


class GuessData(vf.TaskData):
    secret: int


class GuessTask(vf.Task[GuessData]):
    pass


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task: GuessTask, agents: Any) -> None:
        total = 0.0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn("Guess a number from 1 to 9.")
            for _ in range(5):
                if segment.terminated:
                    break
                guess = int(segment.last_reply)
                if guess == task.data.secret:
                    total += 12.5
                    break
                total -= 2.5
                segment = await interaction.turn("Too low." if guess < task.data.secret else "Too high.")
        interaction.trace.record_reward("points", total)


class GuessTaskset(vf.Taskset[GuessTask, vf.TasksetConfig]):
    def load(self) -> list[GuessTask]:
        return [GuessTask(GuessData(prompt=None, secret=secret), self.config.task) for secret in (5, 3)]
