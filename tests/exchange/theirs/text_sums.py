"""A verifiers environment without pictures: one question, one answer. Rewards are 0 and 1."""

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumsData(vf.TaskData):
    answer: str


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in (trace.last_reply or ""))


class SumsConfig(vf.TasksetConfig):
    num_tasks: int = 3


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        return [
            SumsTask(SumsData(prompt=f"What is {n} + {n + 1}?", answer=str(2 * n + 1)), self.config.task)
            for n in range(self.config.num_tasks)
        ]
