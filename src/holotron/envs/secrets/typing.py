"""Putting a secret into a field, and nowhere else.

Where it goes is looked at after the click: the field that has the focus then, in whatever frame, and the origin of
that frame's document. The value is inserted in one go into that very element by a script in a world of our own, which
looks once more in the same instant. So a page that moves the focus, opens a window or goes elsewhere meanwhile
changes nothing but that the value is not typed.
"""

from __future__ import annotations

from importlib.resources import files

from holotron.envs.effects.gate import Gate
from holotron.envs.focus import Focus, focused, selected
from holotron.envs.hands import ActionRefused, inside, whole
from holotron.envs.secrets.keeping import Secrets
from holotron.envs.tab import Tab
from holotron.errors import EnvironmentFault
from holotron.types import Write

_FIELD = (files("holotron.envs") / "assets" / "field.js").read_text()

_INSERT = f"""function (text, replace, kind) {{
  const field = {_FIELD};
  const problem = () => {{
    if (!this.isConnected || this.getRootNode().activeElement !== this || !field(this).text) return 'moved';
    return field(this).kind === kind ? '' : 'changed';
  }};
  const key = (type) => this.dispatchEvent(new KeyboardEvent(type, {{bubbles: true, composed: true}}));
  key('keydown');  // some pages look at a field when a key comes up, and only then
  if (problem()) return problem();
  if (replace && this.isContentEditable) getSelection().selectAllChildren(this);
  else if (replace) this.select();
  const done = document.execCommand('insertText', false, text);
  key('keyup');
  return done ? '' : 'refused';
}}"""
_WHY = {
    "moved": "the field did not keep the focus",
    "changed": "the field has become another one",
    "refused": "the field does not take it",
}


async def write_secret(tab: Tab, action: Write, secrets: Secrets, gate: Gate) -> Focus:
    """Do what an action says that holds placeholders; refused where one of them must not be typed."""
    if action.x is not None and action.y is not None:
        await tab.click(*inside(whole(tab), action.x, action.y))
    content, enter = action.content.rstrip("\n"), action.press_enter or action.content.endswith("\n")
    if "\t" in content or "\n" in content:
        raise ActionRefused("A secret is written into one field at a time, without tabs and line breaks.")
    focus = await focused(tab)
    if not focus.text or focus.process is None:
        raise ActionRefused("No text field has the focus here, so the secret was not typed. Click on the field.")
    text = secrets.fill(content, focus.origin, focus.kind)
    named = f"the secret {content.strip()}" if len(content) < 100 else "a secret"
    await gate.before_typing(focus, text, named if focus.kind else "")  # in other fields it was allowed beforehand
    await _insert(tab, focus, text, secrets, replace=action.overwrite)
    if enter:
        await tab.press("Enter")
    return focus


def guard_paste(tab: Tab, gate: Gate) -> None:
    """Let no secret be pasted where it must not be typed."""

    async def paste(text: str) -> bool:
        return await _paste(tab, text, gate.secrets, gate)

    tab.instead_of_paste = paste


async def _paste(tab: Tab, text: str, secrets: Secrets, gate: Gate) -> bool:
    """Where the clipboard holds a secret: put it into the field that has the focus, if it may be there. Whether it does
    hold one."""
    held = secrets.held_in(text)
    if not held:
        return False
    focus = await focused(tab)
    for secret in held:
        secrets.check(secret, focus.origin, focus.kind)
    if not focus.text or focus.process is None:
        raise ActionRefused("No text field has the focus here, so the secret was not pasted.")
    named = " and ".join(f"the secret {secret.placeholder}" for secret in held)
    await gate.before_typing(focus, text, named if focus.kind else "")
    await _insert(tab, focus, text, secrets, replace=False)
    return True


async def _insert(tab: Tab, focus: Focus, text: str, secrets: Secrets, *, replace: bool) -> None:
    assert focus.process is not None
    secrets.entered(text)  # before anything can leave
    try:
        outcome = await focus.process.call(focus.element, _INSERT, text, replace, focus.kind)
    except EnvironmentFault:  # its document is gone
        if tab.crashed:
            raise
        outcome = "moved"
    secrets.documents.add(focus.loaded)
    if outcome != "":
        raise ActionRefused(f"The secret was not typed: {_WHY.get(str(outcome), 'the field is gone')}.")


async def check_drag(tab: Tab, secrets: Secrets) -> None:
    """Text that is selected goes along with a drag, into whatever frame lies where it ends."""
    if secrets.held_in(await selected(tab)):
        raise ActionRefused("A secret is selected on this page; what is selected would be dragged along.")
