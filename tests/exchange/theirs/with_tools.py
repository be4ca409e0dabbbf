"""A tool has to be called before the question can be answered."""

import verifiers.v1 as vf

__all__ = ["LookupTaskset"]


class LookupData(vf.TaskData):
    answer: str


class LookupTools(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    def capital(self, country: str) -> str:
        """The capital of a country."""
        return {"Norway": "Oslo", "Peru": "Lima"}.get(country, "unknown")


class LookupTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class LookupTask(vf.Task[LookupData, vf.State, LookupTaskConfig]):
    @classmethod
    def toolsets(cls, config: LookupTaskConfig) -> list[vf.Toolset]:
        return [LookupTools(config.tools)]

    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in (trace.last_reply or ""))


class LookupConfig(vf.TasksetConfig):
    task: LookupTaskConfig = LookupTaskConfig()


class LookupTaskset(vf.Taskset[LookupTask, LookupConfig]):
    def load(self) -> list[LookupTask]:
        return [
            LookupTask(
                LookupData(prompt=f"What is the capital of {country}? Use the tool.", answer=city), self.config.task
            )
            for country, city in (("Norway", "Oslo"), ("Peru", "Lima"))
        ]


if __name__ == "__main__":
    LookupTools.run()
