"""holotron: serve, run, measure and train computer-use policies of the Holotron family.

    run, run_async            one task in a real browser -> RunResult: outcome, answer, steps, Cost
    evaluate, rollout         a suite, scored or recorded;  also *_async
    Model                     a model in this process: chat, stream, sessions;  ChatSession, ChatReply
    Engine, EngineConfig      sessions at high concurrency over one model;  SamplingParams, Grammar
    load_model, Holotron      the bare network;  ModelConfig, preset, Processor, DecoderState, save_checkpoint
    Environment, Policy, Dialect, Suite, Task, View, Secret      what you write your own of
    Question, Decision, Rules    what a person is asked and answers, and what needs no asking
    errors, types             what is raised; what is passed around

What is listed here is stable: within a minor version (0.x) nothing of it is renamed or removed, and what will be is
announced one version ahead. Everything else may move.

Names are resolved on first use: `import holotron` itself imports neither torch nor a browser.
"""

# Nothing is imported here, not even `typing` (a third of what an import costs): type checkers know this name.
TYPE_CHECKING = False

__version__ = "0.1.0"

_PUBLIC = {
    "run": "holotron.api.running",
    "run_async": "holotron.api.running",
    "RunResult": "holotron.api.running",
    "Cost": "holotron.api.running",
    "evaluate": "holotron.api.playing",
    "evaluate_async": "holotron.api.playing",
    "rollout": "holotron.api.playing",
    "rollout_async": "holotron.api.playing",
    "Model": "holotron.api.chatting",
    "ChatSession": "holotron.api.chatting",
    "ChatReply": "holotron.api.chatting",
    "Holotron": "holotron.model.model",
    "ModelConfig": "holotron.model.config",
    "DecoderState": "holotron.model.cache",
    "Processor": "holotron.model.processor",
    "load_model": "holotron.model.loading",
    "preset": "holotron.model.presets",
    "save_checkpoint": "holotron.model.weights",
    "Engine": "holotron.engine",
    "EngineConfig": "holotron.engine",
    "SamplingParams": "holotron.engine",
    "Grammar": "holotron.engine",
    "Environment": "holotron.envs.base",
    "Policy": "holotron.agent.policies.base",
    "PolicySession": "holotron.agent.policies.base",
    "PolicyRequest": "holotron.agent.policies.registry",
    "Dialect": "holotron.agent.dialects",
    "Suite": "holotron.suites.base",
    "Secret": "holotron.envs.secrets",
    "Question": "holotron.envs.effects.question",
    "Decision": "holotron.envs.effects.question",
    "Rules": "holotron.envs.effects.rules",
    "Task": "holotron.types",
    "View": "holotron.view",
}
_MODULES = ("errors", "types")

__all__ = [
    "ChatReply",
    "ChatSession",
    "Cost",
    "Decision",
    "DecoderState",
    "Dialect",
    "Engine",
    "EngineConfig",
    "Environment",
    "Grammar",
    "Holotron",
    "Model",
    "ModelConfig",
    "Policy",
    "PolicyRequest",
    "PolicySession",
    "Processor",
    "Question",
    "Rules",
    "RunResult",
    "SamplingParams",
    "Secret",
    "Suite",
    "Task",
    "View",
    "__version__",
    "errors",
    "evaluate",
    "evaluate_async",
    "load_model",
    "preset",
    "rollout",
    "rollout_async",
    "run",
    "run_async",
    "save_checkpoint",
    "types",
]

if TYPE_CHECKING:
    from typing import Any

    from holotron import errors, types
    from holotron.agent.dialects import Dialect
    from holotron.agent.policies.base import Policy, PolicySession
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.api.chatting import ChatReply, ChatSession, Model
    from holotron.api.playing import evaluate, evaluate_async, rollout, rollout_async
    from holotron.api.running import Cost, RunResult, run, run_async
    from holotron.engine import Engine, EngineConfig, Grammar, SamplingParams
    from holotron.envs.base import Environment
    from holotron.envs.effects.question import Decision, Question
    from holotron.envs.effects.rules import Rules
    from holotron.envs.secrets import Secret
    from holotron.model.cache import DecoderState
    from holotron.model.config import ModelConfig
    from holotron.model.loading import load_model
    from holotron.model.model import Holotron
    from holotron.model.presets import preset
    from holotron.model.processor import Processor
    from holotron.model.weights import save_checkpoint
    from holotron.suites.base import Suite
    from holotron.types import Task
    from holotron.view import View


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"holotron.{name}")
    if name not in _PUBLIC:
        import sys

        # With the name and the module, Python itself says "Did you mean".
        raise AttributeError(f"module 'holotron' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
