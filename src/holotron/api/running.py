"""One task in a real browser, from Python.

    result = run("Find the newest release.", url="https://www.python.org", policy="http://localhost:8000/v1")
    print(result.outcome, result.answer, result.cost)
    for step in result.steps:
        print(step.reply.thought, step.reply.action)

In a program that has an event loop already: `await run_async(...)`, with the same arguments.
"""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from holotron.actions import action_to_json
from holotron.addresses import split_login
from holotron.agent.approval import Approval, Level
from holotron.agent.events import Listener
from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.policies.function import Act, as_policy
from holotron.agent.policies.registry import PolicyRequest, ask_profile, make_policy
from holotron.agent.steered import Steer
from holotron.api.blocking import blocking
from holotron.envs.effects.question import ALLOW_ONCE, REFUSE, Approver, Decision, Question
from holotron.envs.effects.rules import Rules, load_rules
from holotron.envs.network import Blocked, NetworkPolicy, check_url
from holotron.envs.registry import PoolRequest, environments
from holotron.envs.secrets import Secret, Secrets, parse_secret
from holotron.errors import ConfigError
from holotron.model.bundled import BUNDLED
from holotron.rollouts.single import run_once
from holotron.suites.web import VIEW
from holotron.types import Outcome, Step, Task, Trajectory
from holotron.view import View

NOT_FOR_THE_WEB = (
    f"{BUNDLED} is small and was trained on toy pages: on the open web expect little of it."
)  # fmt: skip
Said = bool | Decision
Confirm = Level | Approval | Callable[[Question], Said] | Callable[[Question], Awaitable[Said]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took."""

    seconds: float
    policy_seconds: float  # of these, waiting for the policy
    prompt_tokens: int
    cached_tokens: int  # of these, remembered by the server
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run. Whether the task was really done nobody here can tell: an answer is `unscored`."""

    outcome: Outcome
    answer: str
    steps: tuple[Step, ...]
    refused: tuple[str, ...]  # the questions that were answered with no: these actions were not done
    cost: Cost
    error: str = ""  # why it ended, where it did not end with an answer
    folder: Path | None = None  # where it was recorded

    @property
    def answered(self) -> bool:
        """It came to an end by itself, with an answer, and nothing was refused on the way."""
        return self.outcome in (Outcome.SUCCESS, Outcome.UNSCORED) and not self.refused

    def __repr__(self) -> str:
        """What a notebook shows: without pictures."""
        about = f"{self.outcome}, {self.answer!r}, {len(self.steps)} steps, {self.cost.seconds:.1f} s"
        refused = f", {len(self.refused)} refused" if self.refused else ""
        return f"RunResult({about}{refused}{f', {self.error!r}' if self.error else ''})"

    @classmethod
    def of(cls, trajectory: Trajectory, folder: Path | None) -> RunResult:
        said = [step.reply.completion for step in trajectory.steps]
        cost = Cost(
            seconds=trajectory.seconds,
            policy_seconds=sum(step.policy_seconds for step in trajectory.steps),
            prompt_tokens=sum(one.prompt_tokens for one in said),
            cached_tokens=sum(one.cached_tokens for one in said),
            generated_tokens=sum(one.generated_tokens for one in said),
        )
        refused = tuple(str(step.info["asked"]) for step in trajectory.steps if step.info.get("asked"))
        return cls(
            trajectory.outcome, trajectory.answer, trajectory.steps, refused, cost, trajectory.error, folder
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain data, without pictures."""
        return {
            "outcome": str(self.outcome),
            "answer": self.answer,
            "error": self.error,
            "refused": list(self.refused),
            "steps": [_plain(step) for step in self.steps],
            "cost": {name: getattr(self.cost, name) for name in Cost.__slots__},
            "folder": None if self.folder is None else str(self.folder),
        }


async def run_async(
    goal: str,
    *,
    url: str,
    policy: str | PolicyRequest | Policy | Act = BUNDLED,
    secrets: Iterable[Secret | str] = (),
    allow: Sequence[str] = (),
    private: bool = False,
    confirm: Confirm = "critical",
    rules: str | Path | Rules | None = None,
    steps: int = 30,
    seconds: float = 600.0,
    tokens: int | None = None,
    view: View = View(),
    headed: bool = False,
    profile: str | Path | None = None,
    cdp: str | None = None,
    out: str | Path | None = None,
    listeners: Sequence[Listener] = (),
    steer: Steer | None = None,
) -> RunResult:
    """Give the agent one task in a real browser.

    policy     a model (bundled, folder, hub id, preset), the address of a server, a `Policy`, or a function from
               (task, observation) to an action
    secrets    `Secret(name, value, hosts)`, or "NAME=VARIABLE@HOST": what it may type there, into fields for passwords
               ("NAME:any=..." for others), and never sees
    allow      hosts it may reach; none: every public one. `private`: also this machine and its network
    confirm    "never", "critical" (refuse what would change the world) or "always" (refuse everything); or a function
               that gets a `Question` and says True or False, or more exactly a `Decision`
    rules      a TOML file: what is always sent, never sent, or asked about, site by site
    profile    a file with saved log-ins: read if it is there, written at the end
    cdp        the address of a browser that runs already (http://127.0.0.1:9222), to work in that one
    out        a run directory to record in; nothing is kept without it
    listeners  functions of (episode, event) that are told everything as it happens
    steer      puts the episode into a person's hand: `holotron.console.live.LiveRun.steer`, or your own
    """
    given = (secrets,) if isinstance(secrets, str | Secret) else secrets
    known = tuple(one if isinstance(one, Secret) else parse_secret(one) for one in given)
    approval = _approval(confirm)
    held = load_rules(rules)
    if approval.level == "never" and rules is not None:
        raise ConfigError('rules say what is asked about, and confirm="never" asks nothing: leave one of them out')
    options: dict[str, Any] = {
        "rules": None if approval.level == "never" else held,
        "network": NetworkPolicy(allow=(allow,) if isinstance(allow, str) else tuple(allow), private=private),
        "secrets": known,
        "headless": not headed,
        "profile": None if profile is None else Path(profile),
        "attach": cdp,
    }
    _check(goal, url, steps, seconds, tokens, view)
    if options["profile"] is not None:
        from holotron.envs.profile import saved_state

        saved_state(options["profile"])
    if policy == BUNDLED and not private:
        warnings.warn(f"{NOT_FOR_THE_WEB} Name a larger model, or a server's address, as policy.", stacklevel=2)
    kept = Secrets(known)
    _check_start(url, options["network"], kept)
    today = time.strftime("%A, %Y-%m-%d")
    task = Task("web", "task", goal + kept.explain(), start_url=url, options={"today": today})
    actor, shown = await _actor(policy, view)
    folder = None if out is None else Path(out)
    try:
        pool = environments.get("web")(PoolRequest(1, shown, options))
        try:
            trajectory = await run_once(
                task,
                actor,
                pool,
                folder,
                limits=Limits(steps=steps, seconds=seconds, tokens=tokens, answer_when_over=True),
                environment={"suite": "web", "view": shown.to_json()},
                approval=approval,
                listeners=listeners,
                steer=steer,
            )
        finally:
            await pool.close()
    finally:
        if isinstance(policy, str | PolicyRequest):
            await actor.close()
    return RunResult.of(trajectory, folder)


run = blocking(run_async)


def _check(goal: Any, url: Any, steps: Any, seconds: Any, tokens: Any, view: Any) -> None:
    """Before a browser is started for it."""
    if not isinstance(goal, str) or not goal.strip():
        raise ConfigError(f"goal is what the agent is to do, in words; not {goal!r}")
    if not isinstance(url, str) or not url.strip():
        raise ConfigError(f"url is where the agent starts, such as https://www.python.org; not {url!r}")
    if not isinstance(steps, int) or steps < 1:
        raise ConfigError(f"steps is a whole number, at least 1; not {steps!r}")
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise ConfigError(f"seconds is a number above 0; not {seconds!r}")
    if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
        raise ConfigError(f"tokens is a whole number, at least 1, or None; not {tokens!r}")
    if not isinstance(view, View):
        raise ConfigError(f"view is a holotron.View, such as View(width=1280, height=720); not {view!r:.60}")


def _check_start(url: str, network: NetworkPolicy, kept: Secrets) -> None:
    """Before a model is loaded for it."""
    bare, _ = split_login(url)
    if bare.startswith("file:") or os.path.isfile(bare):
        served = f"http://127.0.0.1:8000/{Path(bare).name}"
        how = f'Run "python -m http.server" in its folder, and start at {served}, with --private (private=True).'
        raise ConfigError(kept.redact(f"{bare} is a file, and only http and https are opened. {how}"))
    try:
        check_url(bare, network)
    except Blocked as blocked:
        raise ConfigError(kept.redact(f"{bare} cannot be opened: {blocked}.")) from None


async def _actor(policy: str | PolicyRequest | Policy | Act, view: View) -> tuple[Policy, View]:
    """Who acts, and how the page is shown to it."""
    if not isinstance(policy, str | PolicyRequest):
        return as_policy(policy), view.over(VIEW)
    request = policy if isinstance(policy, PolicyRequest) else PolicyRequest(policy)
    asked = await ask_profile(request)
    return await make_policy(asked), view.over(asked.profile.views.get("web", View())).over(VIEW)


def _approval(confirm: Confirm) -> Approval:
    if isinstance(confirm, Approval):
        return confirm
    if isinstance(confirm, str):
        if confirm in get_args(Level):
            return Approval(confirm)
    elif callable(confirm):
        return Approval("critical", approver(confirm))
    raise ConfigError(f"confirm is never, critical, always, or a function of a question; not {confirm!r}")


def approver(answer: Callable[[Question], Said] | Callable[[Question], Awaitable[Said]]) -> Approver:
    """Anybody's function as what the agent asks. Nothing but True, or a decision that says so, allows."""

    async def ask(question: Question) -> Decision:
        said = answer(question)
        said = await said if inspect.isawaitable(said) else said
        return said if isinstance(said, Decision) else ALLOW_ONCE if said is True else REFUSE

    return ask


def _plain(step: Step) -> dict[str, Any]:
    reply = step.reply
    return {
        "url": step.observation.url,
        "thought": reply.thought,
        "note": reply.note,
        "action": None if reply.action is None else action_to_json(reply.action),
        "refused": bool(step.info.get("refused")),
        "error": reply.error,
        "seconds": round(step.policy_seconds + step.environment_seconds, 3),
    }
