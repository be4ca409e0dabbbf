"""What an agent must not see."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from holotron.envs.secrets import Secret, Secrets, parse_secret
from holotron.errors import ConfigError
from holotron.types import PressKeys, Write

pytestmark = pytest.mark.browser

FIELD = """<title>sign in</title><body style="margin:0"><form>
<input id=field name=code style="position:absolute;left:10px;top:10px;width:200px;height:40px;font:24px monospace">
<p id=echo style="position:absolute;left:10px;top:80px;font:24px monospace;margin:0"></p></form>
<script>field.oninput = () => { echo.textContent = 'code: ' + field.value; document.title = field.value; }</script>"""


def pixels(observation):
    with Image.open(io.BytesIO(observation.image)) as image:
        return np.asarray(image.convert("L"), dtype=int)


def test_a_secret_is_typed_and_appears_nowhere(run, browse, site):
    def pages(value):
        async def main():
            secret = Secret("code", value, hosts=(site.host,))
            async with browse(FIELD, secrets=(secret,)) as page:
                typed = await page.do(Write("<secret:code>", 50, 30))
                sent = await page.do(PressKeys(("Enter",)))
                return await page.js("location.search"), typed.observation, sent.observation

        return run(main())

    (one, typed_one, sent), (_, typed_other, _) = pages("hunter2-long"), pages("another-code")
    assert one == "?code=hunter2-long"  # the page has got it
    assert "hunter2" not in repr((typed_one.url, typed_one.title, typed_one.note, sent.url, sent.title))
    assert typed_one.title == "<secret:code>"
    assert sent.url.endswith("?code=<secret:code>")
    # Two values of the same length look the same, in the field and where the page repeats them.
    assert (pixels(typed_one) == pixels(typed_other)).all()
    assert (pixels(typed_one)[80:110, 10:300] < 100).any()  # "code:" is still to be read


def test_a_secret_is_for_its_own_site_only(run, browse):
    async def main():
        async with browse(FIELD, secrets=(Secret("code", "hunter2-long", hosts=("bank.example",)),)) as page:
            elsewhere = await page.do(Write("<secret:code>", 50, 30))
            unknown = await page.do(Write("<secret:pin>", 50, 30))
            return elsewhere.observation.note, unknown.observation.note, await page.js("field.value")

    elsewhere, unknown, value = run(main())
    assert "bank.example only" in elsewhere
    assert "no secret 'pin'" in unknown
    assert value == ""


def test_hosts_are_matched_by_whole_names():
    secrets = Secrets([Secret("code", "hunter2", hosts=("bank.example",))])
    assert secrets.fill("a <secret:code>", "https://www.bank.example/x") == "a hunter2"
    for url in (
        "https://evilbank.example",
        "https://bank.example.evil.com",
        "about:blank",
        "https://bank.example@evil.com",
    ):
        with pytest.raises(Exception, match="only"):
            secrets.fill("<secret:code>", url)


def test_wrong_secrets_are_errors_that_say_what_to_do(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "correct horse")
    monkeypatch.setenv("SHORT", "abc")
    assert parse_secret("pw=SHOP_PASSWORD@shop.example,pay.example").hosts == ("shop.example", "pay.example")
    assert "correct" not in repr(parse_secret("pw=SHOP_PASSWORD@shop.example"))
    for spec, words in (("pw", "NAME=VARIABLE@HOST"), ("pw=NO_SUCH@a.b", "NO_SUCH"), ("pw=SHORT@a.b", "too short")):
        with pytest.raises(ConfigError, match=words):
            parse_secret(spec)
