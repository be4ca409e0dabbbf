"""One look, one action: a policy is shown a picture and a goal, as the first turn of an episode that nobody plays."""

from __future__ import annotations

import asyncio
import io

from PIL import Image

from holotron.agent.policies.base import Policy
from holotron.types import Action, Observation, Task


async def first_action(policy: Policy, task: Task, observation: Observation) -> Action | None:
    session = await policy.start(task, None)
    try:
        return (await session.act(observation)).action
    finally:
        await session.close()


async def observation_of(image: Image.Image, viewport: tuple[int, int]) -> Observation:
    """A picture as a browser would have sent it, without loss."""
    buffer = io.BytesIO()
    await asyncio.to_thread(image.convert("RGB").save, buffer, "PNG")
    return Observation(buffer.getvalue(), "image/png", image.size, viewport)
