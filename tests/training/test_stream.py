"""What is trained on is what is served: token for token, and probability for probability."""

from __future__ import annotations

import asyncio
import io

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append, Selection, Shown, Turn
from holotron.agent.images import Image
from holotron.agent.loop import Episode, Limits
from holotron.agent.messages import Message
from holotron.agent.policies.engine import EnginePolicy
from holotron.data.drawn import Painter
from holotron.data.pages.make import Size
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.errors import InputError
from holotron.model.loading import load_model
from holotron.model.processor import Processor
from holotron.rollouts.export import conversations
from holotron.training.batches import pack
from holotron.training.evaluation import hit
from holotron.training.learner import Learner
from holotron.training.pages import PageSamples
from holotron.training.places import token_at
from holotron.training.recipe import DrawnData
from holotron.training.stream import conversation, conversation_sample
from holotron.types import Click, Completion, Observation, Task
from tests.agent.toy import ButtonEnvironment
from tests.training.support import small_config


def plain(message: Message) -> dict:
    parts = [
        {"type": "image", "image": part.data} if isinstance(part, Image) else {"type": "text", "text": part}
        for part in message.parts
    ]
    return {"role": message.role, "content": parts}


def test_the_trainer_sees_the_tokens_and_probabilities_of_the_engine():
    """An episode played by the engine, then learnt from: the stream is the engine's log, and every sampled token has
    the same probability in the trainer (within a thousandth, multiplicatively, in fp32)."""
    model, processor = load_model("tiny", device="cpu")
    dialect = make_dialect("compact", actions=["click", "hover", "go_back"])
    task = Task("buttons", "press", seed=5, options={"presses": 50})
    with Engine(model, processor, EngineConfig()) as engine:
        policy = EnginePolicy(
            engine, dialect, Append(), sampling=SamplingParams(temperature=1.0, max_tokens=160, seed=7)
        )
        limits = Limits(steps=4, repeats=99, invalid_replies=99)
        trajectory = asyncio.run(Episode(ButtonEnvironment(), policy, task, limits=limits).run())

    ((messages, learn),) = list(conversations(trajectory, dialect, Append()))
    sample = conversation_sample(processor, [plain(message) for message in messages], learn)
    batch = pack([sample.tiles], [sample.sequences], [None], config=model.config, device=torch.device("cpu"))
    learner = Learner(model)
    rows = learner.see(learner.pixels(batch.tiles_n3HW))[1]
    with torch.no_grad():
        logprobs = learner.predict(batch, rows).log_softmax(-1)
    mine = logprobs.gather(-1, batch.targets_l[:, None])[:, 0].tolist()

    sampled = [step.reply.completion for step in trajectory.steps]
    assert len(sampled) >= 2
    assert batch.targets_l.tolist() == [token for completion in sampled for token in completion.tokens]
    theirs = [logprob for completion in sampled for logprob in completion.logprobs]
    free = [(a, b) for a, b in zip(mine, theirs, strict=True) if b != 0.0]  # the grammar forced the others
    assert len(free) > 10
    assert max(np.exp(abs(a - b)) for a, b in free) < 1.001


def test_only_chosen_replies_are_learnt():
    processor = Processor.for_bytes(template="turns")
    chat = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "bc"},
    ]
    sequence, images = conversation(processor, chat, learn=[3])
    assert not images
    learnt = [int(i) for i in sequence.ids[sequence.learn]]
    assert learnt == [ord("b"), ord("c"), 260]
    assert sequence.prompt == len(processor.render(chat[:1]))
    everything, _ = conversation(processor, chat)
    assert everything.learn.sum() == 5


def test_a_conversation_must_end_with_a_reply():
    processor = Processor.for_bytes(template="turns")
    with pytest.raises(InputError, match="end with a reply"):
        conversation(processor, [{"role": "user", "content": "hello"}])


@pytest.mark.parametrize("name", ["compact", "holotron"])
def test_questions_about_pages_are_first_turns_of_the_agent(name):
    """The same page as an observation, through the real dialect and the real processor: the same tokens."""
    page = Painter(sizes=(Size.parse("64x64@1"),)).paint(seed=1, index=2)
    config = small_config()
    processor = Processor.for_bytes(config.image, template="turns")
    data = DrawnData(kind="drawn", questions=4, dialect=name)
    sample = PageSamples(data, processor, config).sample(page, np.random.default_rng(0))
    assert sample.sequences

    dialect = make_dialect(name)
    file = io.BytesIO()
    Pillow.fromarray(page.image).save(file, "PNG")
    observation = Observation(file.getvalue(), "image/png", (64, 64), (64, 64))
    image, screen = dialect.look(observation)
    turn = Turn(0, observation, image, screen)
    for sequence in sample.sequences:
        reply = processor.tokenizer.decode(sequence.ids[sequence.learn].tolist())
        parsed = dialect.parse(Completion(reply), screen)
        assert parsed.error == ""
        goal = goal_of(processor.tokenizer.decode(sequence.ids[: sequence.prompt].tolist()), name)
        asked = dialect.messages(Task("pages", "x", goal=goal), Selection((), (Shown(turn, image),)))
        whole, (picture,) = conversation(
            processor, [*(plain(message) for message in asked), {"role": "assistant", "content": reply}]
        )
        assert np.array_equal(whole.ids, sequence.ids)
        assert np.array_equal(whole.shown, sequence.shown)
        assert torch.equal(picture.tiles, sample.tiles)
        if sequence.target is not None:
            assert hit(reply, sequence.target)
            assert not hit(dialect.render(Click(0, 0), screen), sequence.target)


def goal_of(prompt: str, dialect: str) -> str:
    if dialect == "compact":
        return prompt.removesuffix("\n")
    return prompt.split("<task>")[1].split("</task>")[0].strip() if "<task>" in prompt else prompt


def test_policies_look_at_what_is_quoted_before_they_click_beside_it():
    """The reply says where the quoted text is, then clicks the target; the pointing loss asks for the former. Answers
    that are read off the page begin in the same way."""
    config = small_config()
    processor = Processor.for_bytes(config.image, template="turns")
    painter = Painter(sizes=(Size.parse("96x96@1"),))
    for name, looks in (("compact", True), ("holotron", False)):
        samples = PageSamples(DrawnData(kind="drawn", questions=8, dialect=name), processor, config)
        looked = {"click": 0, "answer": 0}
        for index in range(20):
            for sequence in samples.sample(painter.paint(3, index), np.random.default_rng(index)).sequences:
                reply = processor.tokenizer.decode(sequence.ids[sequence.learn].tolist())
                if "look" not in reply:
                    continue
                done = reply.split()[3]
                looked[done] += 1
                assert (sequence.target is not None and hit(reply, sequence.target)) == (done == "click")
                x, y = (int(cell) / 1000 + 0.0005 for cell in reply.split()[1:3])
                ((_, _, _, pointed),) = sequence.points.tolist()
                assert pointed == token_at(sequence.shown, (96, 96), x, y, config.image)
                aims = sequence.aims.tolist()  # where it looks, where it clicks
                assert aims[0][1:] == [0, len(sequence.shown), pointed]
                digits = [bytes(sequence.ids[before + 1 : before + 4].tolist()).decode() for before, *_ in aims]
                assert digits == [reply.split()[1], *([reply.split()[4]] if done == "click" else [])]
        assert all((count > 10) == looks for count in looked.values())
