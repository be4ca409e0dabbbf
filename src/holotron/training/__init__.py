"""Fine-tuning from recipes: `holotron train sft RECIPE.toml`.

Read in this order: `recipe` (what can be asked for), `samples` (what a sample is), `stream` (conversations to tokens,
exactly as the engine serves them), `sources` and `mixture` (where samples come from, in which order), `batches`
(packing), `learner` (the losses), `loop` (what every training run does), `trainer` (what supervised fine-tuning does in
it; `rl.trainer` is reinforcement learning). `checkpoint` makes the loop survive a kill, `distributed` spreads it over
ranks, `lora` makes it small, `reading` is the dense loss that teaches a small tower its letters.
"""
