"""Judges: models that look at what an agent did and say whether the task was done.

    model = JudgeModel("http://localhost:8000/v1", "some-vision-model")
    judged = await judge(read_source(Path("runs/eval")), WebVoyagerJudge(screenshots=15), model)
    judged.figures.overall.rate, judged.figures.overall.undecided

Read in this order: `cases` (what a judge is shown of an episode), `sources` (cases from runs and from other people's
result folders), `model` (the model behind an address), `webvoyager` and `three_stage` (the protocols), `store`
(verdicts on disk), `run` (all cases, several at a time), `figures`, `labels` and `correction` (calibration), `apply` (a
run with verdicts as its outcomes). What figures are worth: docs/judging.md.
"""
