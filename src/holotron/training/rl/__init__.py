"""Reinforcement learning on live rollouts: `holotron train rl RECIPE.toml`.

Two things run side by side and neither waits for the other: `rollouts` plays groups of episodes with the engine, all
the time; `trainer` takes finished groups, makes one update from them, and gives the engine the new weights while it
runs. Between them is `queue`, which is short and throws old groups away.

Read in this order: `recipe` (what can be asked for), `record` (an episode as the engine served it, token by token),
`policy` (how a group shares its beginning and every token is kept), `tasks` (what is played next), `groups` (what is
learnt from a group), `successes` (what is remembered for hard tasks), `rollouts`, `queue`, `passes` (groups to
batches), `objective` (the loss), `serving` (the engine's copy of the model), `weights` (trainer to engine, and how well
the two agree), `trainer` (updates). The loop around them, with checkpoints, curves and export, is `training.loop`; the
rules of playing (attempts, stragglers, broken environments) are `rollouts.rules`.
`docs/rl.md` says why it is done this way.
"""
