"""The engine: sessions that remember what they have computed.

from holotron.engine import Engine, EngineConfig, SamplingParams
with Engine(model, processor) as engine, engine.open() as session:
    session.append("The capital of France is")
    print(session.generate(SamplingParams(max_tokens=8, temperature=0)).result().text)
"""

from holotron.engine.aio import AsyncEngine, AsyncSession
from holotron.engine.api import (
    EngineConfig,
    EngineStats,
    EngineStopped,
    Grammar,
    IntegrityError,
    Mark,
    OnUpdate,
    Overloaded,
    Result,
    SamplingParams,
    SessionBusy,
    SessionInfo,
    Span,
    StepReport,
    Timings,
    TokenEvent,
    UnknownSession,
)
from holotron.engine.content import Part, Parts
from holotron.engine.engine import Engine
from holotron.engine.exported import ExportedSession
from holotron.engine.generation import Generation
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log, tile_key
from holotron.engine.session import Session
from holotron.engine.weights import Arriving, Change, HalfLoaded, LowRank, Sparse

__all__ = [
    "Arriving",
    "AsyncEngine",
    "AsyncSession",
    "Change",
    "Engine",
    "EngineConfig",
    "EngineStats",
    "EngineStopped",
    "ExportedSession",
    "Generation",
    "Grammar",
    "HalfLoaded",
    "IntegrityError",
    "Log",
    "LowRank",
    "Mark",
    "Matcher",
    "OnUpdate",
    "Overloaded",
    "Part",
    "Parts",
    "Result",
    "SamplingParams",
    "Session",
    "SessionBusy",
    "SessionInfo",
    "Span",
    "Sparse",
    "StepReport",
    "Timings",
    "TokenEvent",
    "UnknownSession",
    "tile_key",
]
