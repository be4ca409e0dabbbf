"""The stylesheet of a page: one small inline sheet per theme, layout, density and viewport."""

from __future__ import annotations

from functools import cache

from holotron.sites.looks import Layout, Theme
from holotron.sites.variation import Density, Viewport

_UNIT = {"compact": 3, "normal": 4, "airy": 5}  # CSS pixels
_TYPE = {"compact": 13, "normal": 15, "airy": 16}

_BUTTONS = {
    "solid": "",
    "pill": "border-radius: 99px; padding-inline: calc(var(--u)*5);",
    "outline": "background: transparent; color: var(--accent); border-color: var(--accent);",
    "soft": "background: color-mix(in srgb, var(--accent) 16%, var(--surface)); color: var(--accent);"
    "border-color: transparent; font-weight: 700;",
    "upper": "text-transform: uppercase; letter-spacing: .04em; font-size: .86em;",
}


@cache
def stylesheet(theme: Theme, layout: Layout, density: Density, viewport: Viewport) -> str:
    variables = {
        "ground": theme.ground, "surface": theme.surface, "ink": theme.ink, "faint": theme.faint, "line": theme.line,
        "accent": theme.accent, "on-accent": theme.on_accent, "bar": theme.bar, "on-bar": theme.on_bar,
        "r": f"{theme.radius}px", "shadow": theme.shadow, "u": f"{_UNIT[density]}px",
    }  # fmt: skip
    sheet = "".join(
        (
            ":root{", *(f"--{name}:{value};" for name, value in variables.items()), "}",
            f"body{{font:{_TYPE[density]}px/1.45 {theme.font}}}h1,h2,h3,.brand{{font-family:{theme.heading}}}",
            _BASE, f".button{{{_BUTTONS[theme.button]}}}", _SKELETONS[layout.skeleton], _FORMS[layout.form],
            _PHONE if viewport == "phone" else "",
        )
    )  # fmt: skip
    return " ".join(sheet.split())


_BASE = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink)}
a{color:inherit;text-decoration:none} main a:not(.button,.plain){color:var(--accent)} a:hover{text-decoration:underline}
h1{font-size:1.6em;line-height:1.2;margin:0 0 calc(var(--u)*3)} h2{font-size:1.2em;margin:0 0 calc(var(--u)*2)}
h3{font-size:1em;margin:0} p{margin:0 0 calc(var(--u)*2)} small,.faint{color:var(--faint)} small{font-size:.87em}
svg{display:block} .icon{width:1.25em;height:1.25em;fill:none;stroke:currentColor;stroke-width:1.8;
  stroke-linecap:round;stroke-linejoin:round;flex:none}
.row{display:flex;align-items:center;gap:calc(var(--u)*3);flex-wrap:wrap} .spread{justify-content:space-between}
.grow{flex:1;min-width:0} .right{text-align:right} .strong{font-weight:700}
.stack{display:grid;gap:calc(var(--u)*3);align-content:start}
.panel{background:var(--surface);border:1px solid var(--line);border-radius:var(--r);box-shadow:var(--shadow);
  padding:calc(var(--u)*4)}
.badge{display:inline-block;font-size:.78em;line-height:1;padding:.35em .6em;border-radius:99px;font-weight:700;
  background:color-mix(in srgb,var(--accent) 15%,var(--surface));color:var(--accent)}
.badge.bad{background:#dc262626;color:#dc2626}
.count{font-size:.72em;font-weight:700;line-height:1;padding:.3em .5em;border-radius:99px;background:var(--accent);
  color:var(--on-accent)}
.button{display:inline-flex;align-items:center;justify-content:center;gap:.45em;font:inherit;font-weight:600;
  line-height:1.2;padding:calc(var(--u)*2) calc(var(--u)*4);border:1px solid var(--accent);background:var(--accent);
  color:var(--on-accent);border-radius:var(--r);cursor:pointer;white-space:nowrap}
.button:hover{filter:brightness(1.08);text-decoration:none} .button[disabled]{opacity:.45;cursor:not-allowed}
.button.quiet{background:transparent;color:var(--ink);border-color:var(--line);font-weight:500}
.button.small{padding:calc(var(--u)*1.2) calc(var(--u)*2.5);font-size:.9em}
input,select,textarea{font:inherit;color:inherit;background:var(--surface);border:1px solid var(--line);
  border-radius:min(var(--r),10px);padding:calc(var(--u)*1.8) calc(var(--u)*2.5);width:100%;min-height:2.3em}
input:focus,select:focus,textarea:focus{outline:2px solid var(--accent);outline-offset:0}
input[type=checkbox],input[type=radio]{width:1.15em;height:1.15em;min-height:0;padding:0;accent-color:var(--accent);
  flex:none;margin:0} textarea{min-height:6em;resize:none;display:block} select{cursor:pointer}
::picker(select){background:var(--surface);color:var(--ink);border:1px solid var(--line);border-radius:6px;padding:4px}
option{padding:4px 8px;min-height:1.6em}
.short{width:auto;min-width:5em} .tiny{width:4.6em}
.field{display:grid;gap:calc(var(--u)*1)} .field label{font-weight:600;font-size:.92em}
.field .wrong{color:#dc2626;font-size:.87em} .field.bad input,.field.bad select,.field.bad textarea{border-color:#dc2626}
.choice{display:flex;gap:calc(var(--u)*2);align-items:center;padding:calc(var(--u)*1.2) 0;cursor:pointer}
.flash{padding:calc(var(--u)*2.5) calc(var(--u)*4);border-radius:min(var(--r),10px);margin-bottom:calc(var(--u)*3);
  border:1px solid;border-color:#16a34a66;background:#16a34a1f}
.flash.bad{border-color:#dc262666;background:#dc26261f}
table{border-collapse:collapse;width:100%;background:var(--surface)} th{font-size:.82em;color:var(--faint);
  text-align:left;font-weight:600} th,td{padding:calc(var(--u)*2) calc(var(--u)*2.5);border-bottom:1px solid var(--line);
  vertical-align:middle} td.num,th.num{text-align:right;white-space:nowrap}
.pager{display:flex;gap:calc(var(--u)*2);align-items:center;justify-content:center;margin-top:calc(var(--u)*4)}
.crumbs{font-size:.87em;color:var(--faint);margin-bottom:calc(var(--u)*2)}
.search{display:flex;gap:calc(var(--u)*1.5);min-width:0} .search input{min-width:0}
.brand{font-weight:800;font-size:1.25em;letter-spacing:-.01em;white-space:nowrap}
.bar{background:var(--bar);color:var(--on-bar)} .bar .search input{background:var(--surface);color:var(--ink)}
.bar .button.quiet{color:inherit;border-color:color-mix(in srgb,currentColor 35%,transparent)}
.link{display:inline-flex;align-items:center;gap:.4em;padding:calc(var(--u)*1.5) calc(var(--u)*2);
  border-radius:min(var(--r),8px);white-space:nowrap;background:none;border:0;color:inherit;font:inherit;cursor:pointer}
.link.here{font-weight:700;background:color-mix(in srgb,currentColor 12%,transparent)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(185px,1fr));gap:calc(var(--u)*4)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:calc(var(--u)*3)}
.rows{display:grid;gap:calc(var(--u)*2.5)}
.thumb{display:grid;place-items:center;border-radius:calc(var(--r)*.7);overflow:hidden}
footer{color:var(--faint);font-size:.85em;padding:calc(var(--u)*6) calc(var(--u)*5);margin-top:calc(var(--u)*8);
  border-top:1px solid var(--line)}
.veil{position:fixed;inset:0;background:#0008;display:grid;place-items:center;z-index:20}
.veil .panel{width:min(430px,92vw);padding:calc(var(--u)*6);position:relative}
.veil .x{position:absolute;top:8px;right:10px;font-size:1.3em;line-height:1;background:none;border:0;color:var(--faint);
  cursor:pointer;padding:6px}
.banner{position:fixed;left:0;right:0;bottom:0;background:var(--surface);border-top:1px solid var(--line);z-index:10;
  padding:calc(var(--u)*3) calc(var(--u)*5);box-shadow:0 -4px 16px #0003}
main{padding:calc(var(--u)*5);max-width:1180px;width:100%;margin:0 auto;min-width:0}
"""

_SKELETONS = {
    "topbar": """header.bar{display:flex;align-items:center;gap:calc(var(--u)*4);padding:calc(var(--u)*2) calc(var(--u)*5);
border-bottom:1px solid var(--line)} header nav{display:flex;flex-wrap:wrap} header .search{flex:1;max-width:300px;
margin-left:auto}""",
    "storefront": """header.bar .top{display:flex;align-items:center;gap:calc(var(--u)*6);
padding:calc(var(--u)*3) calc(var(--u)*6)} header .search{flex:1} header nav.places{display:flex;flex-wrap:wrap;
padding:0 calc(var(--u)*5);background:color-mix(in srgb,var(--bar) 92%,var(--accent));
border-bottom:1px solid var(--line)}""",
    "sidebar": """.shell{display:grid;grid-template-columns:216px 1fr;min-height:100vh} aside.bar{padding:calc(var(--u)*4)
calc(var(--u)*3);display:flex;flex-direction:column;gap:calc(var(--u)*4);border-right:1px solid var(--line)}
aside nav{display:grid;gap:2px} aside .brand{padding:0 calc(var(--u)*2)} main{max-width:1060px;margin:0}""",
    "tabs": """header.bar{text-align:center;padding-top:calc(var(--u)*3)} header .top{display:flex;align-items:center;
justify-content:space-between;gap:calc(var(--u)*5);padding:0 calc(var(--u)*5) calc(var(--u)*2)}
header .search{width:300px} header nav.places{display:flex;justify-content:center;flex-wrap:wrap;
border-bottom:1px solid var(--line)} nav.places .link{border-radius:0;padding:calc(var(--u)*2) calc(var(--u)*4)}
nav.places .link.here{background:none;box-shadow:inset 0 -3px var(--accent)}""",
    "rail": """.shell{display:grid;grid-template-columns:92px 1fr;min-height:100vh} aside.bar{display:flex;
flex-direction:column;align-items:center;padding:calc(var(--u)*3) 4px;gap:calc(var(--u)*2);
border-right:1px solid var(--line)} aside nav{display:grid;gap:4px;width:100%} aside .link{flex-direction:column;
font-size:.76em;gap:2px;text-align:center;white-space:normal;line-height:1.15} header{display:flex;
align-items:center;gap:calc(var(--u)*4);padding:calc(var(--u)*3) calc(var(--u)*5)} header .search{flex:1;max-width:520px}
main{margin:0}""",
    "masthead": """header.bar{padding:calc(var(--u)*5) calc(var(--u)*6) calc(var(--u)*3);border-bottom:4px double
var(--line)} header .brand{font-size:2em;display:block;text-align:center} header .under{display:flex;
align-items:center;justify-content:space-between;gap:calc(var(--u)*4);margin-top:calc(var(--u)*3)}
header nav{display:flex;flex-wrap:wrap} .lower{max-width:1180px;margin:0 auto;padding:calc(var(--u)*3) calc(var(--u)*5) 0}
.lower .search{max-width:420px;margin-left:auto}""",
}

_FORMS = {
    "stacked": ".form{display:grid;gap:calc(var(--u)*3);max-width:520px}",
    "columns": ".form{display:grid;gap:calc(var(--u)*3) calc(var(--u)*4);grid-template-columns:1fr 1fr;max-width:780px}"
    ".form>.wide{grid-column:1/-1}",
    "beside": ".form{display:grid;gap:calc(var(--u)*3);max-width:680px} .form .field{grid-template-columns:170px 1fr;"
    "align-items:center} .form .field .wrong{grid-column:2}",
}

_PHONE = """
main{padding:calc(var(--u)*3.5)} h1{font-size:1.35em} .form{grid-template-columns:1fr!important}
.form .field{grid-template-columns:1fr!important} .form .field .wrong{grid-column:auto}
header.phone{padding:calc(var(--u)*2) calc(var(--u)*3);border-bottom:1px solid var(--line);display:grid;
gap:calc(var(--u)*2)} header.phone .row{flex-wrap:nowrap;gap:calc(var(--u)*2)} header.phone .own{margin-left:auto;
display:flex} header.phone .own .link{padding:calc(var(--u)*1.5)} header.phone .own .label{display:none}
header.phone .search{max-width:none;width:auto;margin:0} .search .button{padding-inline:calc(var(--u)*3)}
details.drawer summary{list-style:none;cursor:pointer} details.drawer nav{position:absolute;left:0;right:0;z-index:5;
background:var(--surface);color:var(--ink);border-bottom:1px solid var(--line);display:grid;padding:calc(var(--u)*2);
box-shadow:0 8px 20px #0003} details.drawer nav .link{padding:calc(var(--u)*2.5)}
nav.strip{display:flex;flex-wrap:wrap;gap:2px;font-size:.9em} nav.strip .link{padding:calc(var(--u)*1) calc(var(--u)*2);
border:1px solid color-mix(in srgb,currentColor 22%,transparent);border-radius:99px}
nav.dock{position:fixed;left:0;right:0;bottom:0;z-index:9;display:flex;background:var(--bar);color:var(--on-bar);
border-top:1px solid var(--line)} nav.dock .link{flex:1;flex-direction:column;font-size:.68em;gap:1px;padding:6px 1px;
min-width:0;white-space:normal;text-align:center;line-height:1.1} body.dock{padding-bottom:62px}
body.dock .banner{bottom:56px} .cards{grid-template-columns:1fr 1fr;gap:calc(var(--u)*2.5)} .tiles{grid-template-columns:1fr}
th,td{padding:calc(var(--u)*1.6) calc(var(--u)*1.2)} .wide-only{display:none} table{font-size:.92em}
footer{padding:calc(var(--u)*4)}
"""
