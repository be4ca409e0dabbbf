"""Hypothesis strategies for actions, in CSS pixels of a given viewport."""

from __future__ import annotations

from hypothesis import strategies as st

from holotron.types import (
    Answer,
    Click,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Hover,
    NewTab,
    PressKeys,
    Refresh,
    Restart,
    RightClick,
    Scroll,
    SwitchTab,
    Wait,
    Write,
)

texts = st.text(max_size=40)
urls = st.sampled_from(["https://example.org/a?b=c", "http://localhost:8000/"])
keys = st.sampled_from([("Enter",), ("Control", "a"), ("Control", "Shift", "+"), ("Space",), ("é",), ("F5",)])


def actions(viewport: tuple[int, int], *, elements: bool = True, looks: bool = False) -> st.SearchStrategy:
    """Every kind of action. Coordinates lie on the page; `elements=False` for dialects that do not name elements."""
    x = st.integers(0, viewport[0] - 1).map(float)
    y = st.integers(0, viewport[1] - 1).map(float)
    element = texts if elements else st.just("")
    pointed = [st.builds(cls, x=x, y=y, element=element) for cls in (Click, DoubleClick, RightClick, Hover)]
    return st.one_of(
        *pointed,
        st.builds(Write, content=texts, element=element, overwrite=st.booleans(), press_enter=st.booleans()),
        st.builds(Write, content=texts, x=x, y=y, element=element, overwrite=st.booleans(), press_enter=st.booleans()),
        st.builds(PressKeys, keys=keys),
        st.builds(Scroll, direction=st.sampled_from(["up", "down", "left", "right"])),
        st.builds(Scroll, direction=st.sampled_from(["up", "down"]), x=x, y=y),
        st.builds(Drag, x1=x, y1=y, x2=x, y2=y),
        st.builds(Goto, url=urls),
        st.builds(NewTab, url=st.one_of(st.just(""), urls)),
        st.builds(SwitchTab, index=st.integers(0, 20)),
        st.builds(Wait, seconds=st.integers(0, 10).map(float)),
        st.builds(Answer, content=texts),
        st.builds(Answer, content=texts, x=x, y=y) if looks else st.nothing(),
        st.builds(Write, content=texts, read=st.one_of(texts, st.text("|\\\n a", max_size=8)))
        if looks
        else st.nothing(),
        st.sampled_from([GoBack(), Refresh(), CloseTab(), Restart()]),
    )
