"""Every action, done with pixels in a real browser."""

from __future__ import annotations

import io
import time

import pytest
from PIL import Image

from holotron.envs.tab import Display
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

pytestmark = pytest.mark.browser

LOG_MOUSE = """<body style="margin:0"><script>
  const log = [];
  for (const type of ['click', 'dblclick', 'contextmenu', 'mousemove'])
    addEventListener(type, e => {
      log.push([e.type, e.clientX, e.clientY, e.button, e.isTrusted]);
      e.preventDefault();
    });
</script>"""


def test_mouse_actions_arrive_as_trusted_events_where_they_were_aimed(run, browse):
    async def main():
        async with browse(LOG_MOUSE) as page:
            await page.do(Click(30.5, 40))
            await page.do(RightClick(100, 200))
            await page.do(DoubleClick(60, 70))
            await page.do(Hover(5, 6))
            return await page.js("JSON.stringify(log)")

    log = run(main())
    assert '["click",30,40,0,true]' in log  # mouse events carry whole pixels
    assert '["contextmenu",100,200,2,true]' in log
    assert '["dblclick",60,70,0,true]' in log
    assert log.endswith('["mousemove",5,6,0,true]]')


def test_points_outside_the_view_are_refused_with_a_note(run, browse):
    async def main():
        async with browse(LOG_MOUSE) as page:
            results = [await page.do(Click(x, y)) for x, y in [(401, 10), (-1, 10), (float("nan"), 3), (10, 300.5)]]
            edge = await page.do(Click(400, 300))
            return [r.observation.note for r in results], edge.observation.note, await page.js("log.length")

    notes, edge_note, events = run(main())
    assert all("outside the 400x300 view" in note for note in notes)
    assert edge_note == ""
    assert events > 0  # the corner itself is still a click


def test_write_replaces_or_appends_and_submits(run, browse):
    html = """<input id=a value=old style="position:absolute;left:10px;top:10px">
      <textarea id=t style="position:absolute;left:10px;top:50px;width:200px;height:60px">x</textarea>
      <form onsubmit="window.sent = a2.value; return false">
        <input id=a2 style="position:absolute;left:10px;top:150px"></form>"""

    async def main():
        async with browse(html) as page:
            await page.do(Write("new", 50, 20))
            replaced = await page.js("a.value")
            await page.do(PressKeys(("End",)))
            await page.do(Write("er", overwrite=False))
            appended = await page.js("a.value")
            await page.do(Write("", 50, 20))
            emptied = await page.js("a.value")
            await page.do(Write("two\nlines é 漢 🙂", 50, 80))
            lines = await page.js("t.value")
            await page.do(Write("go", 50, 160, press_enter=True))
            sent = await page.js("window.sent")
            await page.do(Write("y" * 5000, 50, 80))
            long = await page.js("t.value.length")
            return replaced, appended, emptied, lines, sent, long

    assert run(main()) == ("new", "newer", "", "two\nlines é 漢 🙂", "go", 5000)


def test_writing_where_nothing_can_be_written_is_reported(run, browse, site):
    site.pages["/inner"] = '<input id=i value=old style="position:absolute;left:0;top:0;width:100px;height:30px">'
    html = '<p>plain</p><iframe src=/inner style="position:absolute;left:0;top:100px;border:0"></iframe>'

    async def main():
        async with browse(html) as page:
            plain = (await page.do(Write("x", 20, 20))).observation.note
            framed = (await page.do(Write("new", 20, 110))).observation.note
            return plain, framed, await page.js("frames[0].document.getElementById('i').value")

    plain, framed, value = run(main())
    assert "No text field has the focus" in plain
    assert (framed, value) == ("", "new")


def test_keys_and_chords(run, browse):
    html = "<input id=a value=abc autofocus><script>keys=[];addEventListener('keydown',e=>keys.push(e.key))</script>"

    async def main():
        async with browse(html) as page:
            await page.js("a.focus()")
            await page.do(PressKeys(("ctrl", "a")))
            await page.do(PressKeys(("Control+x",)))
            cut = await page.js("a.value")
            await page.do(PressKeys(("Control", "v")))
            await page.do(PressKeys(("Control", "v")))
            pasted = await page.js("a.value")
            await page.do(PressKeys(("page_down",)))
            last = await page.js("keys.at(-1)")
            unknown = await page.do(PressKeys(("NoSuchKey",)))
            nothing = await page.do(PressKeys(()))
            return cut, pasted, last, unknown.observation.note, nothing.observation.note

    cut, pasted, last, unknown, nothing = run(main())
    assert (cut, pasted, last) == ("", "abcabc", "PageDown")
    assert "NoSuchKey" in unknown
    assert "at least one key" in nothing


def test_scroll_moves_what_is_under_the_pointer_and_the_screenshot_shows_it(run, browse):
    html = """<body style="margin:0;height:3000px;background:linear-gradient(#000 0 280px, #fff 280px)">
      <div id=box style="position:absolute;left:0;top:0;width:100px;height:100px;overflow:auto;background:red">
        <div style="height:900px;width:900px"></div></div>"""

    async def main():
        async with browse(html, display=Display(400, 300, format="png")) as page:
            await page.do(Scroll("down", 120, x=50, y=50))
            inner = await page.js("[box.scrollTop, scrollY].join()")
            await page.do(Scroll("right", 70, x=50, y=50))
            sideways = await page.js("box.scrollLeft")
            result = await page.do(Scroll("down", x=300, y=200))
            outer = await page.js("scrollY")
            pixel = Image.open(io.BytesIO(result.observation.image)).convert("RGB").getpixel((300, 250))
            await page.do(Scroll("up", 10_000, x=300, y=200))
            return inner, sideways, outer, pixel, await page.js("scrollY")

    inner, sideways, outer, pixel, top = run(main())
    assert inner == "120,0"
    assert sideways == 70
    assert outer == 240  # most of a 300 pixel page
    assert pixel == (255, 255, 255)
    assert top == 0


def test_drag_by_mouse_events_and_by_drag_and_drop(run, browse):
    html = """<body style="margin:0"><div id=m style="position:absolute;left:0;top:0;width:40px;height:40px"></div>
      <div id=src draggable=true style="position:absolute;left:0;top:100px;width:40px;height:40px;background:red"></div>
      <div id=dst style="position:absolute;left:200px;top:100px;width:80px;height:80px;background:blue"></div>
      <script>
        m.onmousedown = () => {
          onmousemove = e => window.moved = [e.clientX, e.clientY];
          onmouseup = () => onmousemove = null;
        };
        src.ondragstart = e => e.dataTransfer.setData('text/plain', 'cargo');
        dst.ondragover = e => e.preventDefault();
        dst.ondrop = e => window.dropped = e.dataTransfer.getData('text/plain');
      </script>"""

    async def main():
        async with browse(html) as page:
            await page.do(Drag(20, 20, 333, 222))
            moved = await page.js("JSON.stringify(window.moved)")
            await page.do(Drag(20, 120, 240, 140))
            return moved, await page.js("window.dropped")

    assert run(main()) == ("[333,222]", "cargo")


def test_goto_back_refresh_restart(run, browse, site):
    site.pages["/two"] = "<title>two</title>"
    html = "<title>one</title><script>document.cookie = 'n=' + (+document.cookie.split('=')[1] + 1 || 1)</script>"

    async def main():
        async with browse(html) as page:
            at_start = await page.do(GoBack())
            two = await page.do(Goto(site.url("/two")))
            back = await page.do(GoBack())
            await page.do(Refresh())
            before = await page.js("document.cookie")
            again = await page.do(Restart())
            return at_start, two, back, before, again, await page.js("document.cookie")

    at_start, two, back, before, again, after = run(main())
    assert "no page to go back" in at_start.observation.note
    assert at_start.observation.title == "one"
    assert (two.observation.title, two.observation.url) == ("two", site.url("/two"))
    assert back.observation.title == "one"
    assert before != "n=1"
    assert again.observation.title == "one"
    assert after == "n=1"  # a fresh state: the cookies are gone


def test_tabs(run, browse, site):
    site.pages["/two"] = "<title>two</title><script>setTimeout(() => {}, 0)</script>"
    html = f"""<title>one</title><a href="{site.url("/two")}" target=_blank
      style="position:absolute;left:0;top:0;width:100px;height:50px">open</a>"""

    async def main():
        async with browse(html) as page:
            popup = (await page.do(Click(20, 20))).observation
            first = (await page.do(SwitchTab(0))).observation
            missing = (await page.do(SwitchTab(7))).observation
            new = (await page.do(NewTab(site.url("/two")))).observation
            refused = (await page.do(NewTab("file:///etc/passwd"))).observation
            closed = (await page.do(CloseTab())).observation
            await page.do(CloseTab())
            last = (await page.do(CloseTab())).observation
            return popup, first, missing, new, refused, closed, last

    popup, first, missing, new, refused, closed, last = run(main())
    assert (popup.title, popup.tabs, popup.active_tab) == ("two", ("one", "two"), 1)
    assert "new tab" in popup.note
    assert (first.title, first.active_tab) == ("one", 0)
    assert "no tab 7" in missing.note
    assert (new.title, len(new.tabs), new.active_tab) == ("two", 3, 2)
    assert "file:" in refused.note
    assert len(refused.tabs) == 3
    assert len(closed.tabs) == 2
    assert last.tabs == ()
    assert "only tab" in last.note


def test_a_new_tab_is_shown_when_all_of_its_page_has_been_read(run, browse, site):
    html = f"""<a href="{site.url("/halves?seconds=0.8")}" target=_blank
      style="position:absolute;left:0;top:0;width:100px;height:50px">open</a>"""

    async def main():
        async with browse(html) as page:
            return (await page.do(Click(20, 20))).observation

    assert run(main()).title == "whole"


def test_a_new_tab_is_waited_for_also_when_it_came_before_its_opener_was_at_rest(run, browse, site):
    html = f"""<style>a {{ position: absolute; left: 0; top: 0; width: 100px; height: 50px }}
      a:focus {{ animation: shade 0.6s }} @keyframes shade {{ to {{ opacity: 0.3 }} }}</style>
      <a href="{site.url("/halves?seconds=1.2")}" target=_blank>open</a>"""

    async def main():
        async with browse(html) as page:
            return (await page.do(Click(20, 20))).observation

    assert run(main()).title == "whole"


def test_wait_and_answer(run, browse):
    async def main():
        async with browse("<title>x</title>") as page:
            began = time.monotonic()
            await page.do(Wait(0.4))
            waited = time.monotonic() - began
            return waited, await page.do(Answer("42"))

    waited, answered = run(main())
    assert waited >= 0.4
    assert answered.done
    assert answered.reward == 0
