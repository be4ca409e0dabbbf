# ruff: noqa: E501
"""Forms in which a page can show a secret.

Each is a page of which `S` is the secret, in scripts, and SECRET, in its text. `actions` make it show. The other site is
THERE. What is painted must not depend on the secret; `Form.most` is how much of the picture may be blanked for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holotron.types import Action, Click, Wait

SPACE = ' style="position:fixed;left:20px;top:60px;width:340px;height:120px;border:0"'
LITTLE, MUCH, ALL = 0.15, 0.5, 1.0  # of the picture


@dataclass(frozen=True)
class Form:
    name: str
    html: str
    actions: tuple[Action, ...] = ()
    pages: dict[str, str] = field(default_factory=dict)
    other: dict[str, str] = field(default_factory=dict)
    most: float = LITTLE
    typed: bool = False  # into the page, before it is looked at
    unseen: bool = False  # the browser would paint it, and is kept from it


def script(code: str) -> str:
    return f"<script>{code}</script>"


SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='200' height='60'><text x='5' y='30' font-family='monospace'>SECRET</text></svg>"
SVG_LETTERS = '\'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="60">\'+[...S].map((c,i)=>`<text x="${5+20*i}" y="30">${c}</text>`).join(\'\')+\'</svg>\''
INNER = "<!doctype html><body style='margin:0;font:16px monospace'><p>SECRET</p>"
CANVAS = "<canvas id=c width=220 height=60></canvas>"
PEN = "p=c.getContext('2d');p.font='20px monospace';"

TEXT = [
    Form("running text", "<p>The code is SECRET, keep it.</p>"),
    Form("in a proportional font", "<p style='font-family:sans-serif;font-kerning:none'>The code is SECRET</p>"),
    Form("split over elements", script("document.write('<p>'+S.slice(0,3)+'<b>'+S.slice(3,5)+'</b><i>'+S.slice(5)+'</i></p>')")),
    Form("letter by letter", script("document.write('<p>'+[...S].map(c=>`<span>${c}</span>`).join('')+'</p>')")),
    Form("a letter on each line", script("document.write('<p>'+[...S].join('<br>')+'</p>')"), most=MUCH),
    Form("letters in a table", script("document.write('<table><tr>'+[...S].map(c=>`<td>${c}</td>`).join('')+'</table>')")),
    Form("with invisible letters between", script("document.write('<p>'+[...S].join('\\u200b')+'</p><p>'+[...S].join('\\u00ad')+'</p>')")),
    Form("with dashes between", script("document.write('<p>'+[...S].join('-')+'</p>')")),
    Form("with dots and spaces between", script("document.write('<p>'+[...S].join(' . ')+'</p>')")),
    Form("placed from the end", script("document.write('<p style=\"display:flex;flex-direction:row-reverse\">'+[...S].reverse().map(c=>`<span>${c}</span>`).join('')+'</p>')")),
    Form("placed letter by letter", script("[...S].map((c,i)=>[c,i]).sort((a,b)=>a[0]<b[0]?-1:1).forEach(([c,i])=>document.write(`<b style=\"position:fixed;top:100px;left:${30+14*i}px\">${c}</b>`))")),
    Form("one below the other", script("[...S].map((c,i)=>[c,i]).sort((a,b)=>a[0]<b[0]?-1:1).forEach(([c,i])=>document.write(`<b style=\"position:fixed;left:100px;top:${30+22*i}px\">${c}</b>`))"), most=MUCH),
    Form("written backwards", script("document.write('<p style=\"unicode-bidi:bidi-override;direction:rtl\">'+[...S].reverse().join('')+'</p>')")),
    Form("capitals, apart", "<p style='text-transform:uppercase;letter-spacing:6px'>SECRET</p>"),
    Form("small capitals", "<p style='font-variant:small-caps;word-spacing:9px'>SECRET</p>"),
    Form("full width", "<p style='text-transform:full-width'>SECRET</p>"),
    Form("turned", "<p style='transform:rotate(30deg);width:150px;margin:60px'>SECRET</p>", most=MUCH),
    Form("turned by a parent", "<div style='rotate:-50deg;scale:1.3'><p style='width:150px;margin:60px'>SECRET</p></div>", most=MUCH),
    Form("in perspective", "<div style='perspective:200px'><p style='transform:rotateY(40deg)'>SECRET</p></div>", most=MUCH),
    Form("vertical", "<p style='writing-mode:vertical-rl'>SECRET</p>"),
    Form("vertical and upright", "<p style='writing-mode:vertical-lr;text-orientation:upright'>SECRET</p>", most=MUCH),
    Form("in columns", "<div style='columns:3;width:260px'>SECRET SECRET SECRET</div>", most=MUCH),
    Form("enlarged", "<div style='zoom:2'><p>SECRET</p></div>", most=MUCH),
    Form("in a scrolled box", "<div style='height:60px;overflow:auto' id=b><div style='height:200px'></div><p>SECRET</p></div>" + script("b.scrollTop=200")),
    Form("on a scrolled page", "<div style='height:3000px'></div><p>SECRET</p><div style='height:3000px'></div>" + script("scrollTo(0,2900)")),
    Form("fixed on a scrolled page", "<p style='position:fixed;left:30px;top:40px'>SECRET</p><div style='height:3000px'></div>" + script("scrollTo(0,900)")),
    Form("cut off", "<p style='width:60px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap'>SECRET</p>"),
    Form("in a clamped text", "<p style='width:80px;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden'>code SECRET and so on and on</p>"),
    Form("as a shadow", "<p style='color:transparent;text-shadow:120px 40px 1px black'>SECRET</p>", most=MUCH),
    Form("as a cast shadow", "<p style='filter:drop-shadow(90px 60px 0 red)'>SECRET</p>", most=ALL),
    Form("reflected", "<p style='width:150px;-webkit-box-reflect:below 30px'>SECRET</p>", most=ALL),
    Form("moved by a filter", "<svg width=0 height=0><filter id=f x='-5' y='-5' width=11 height=11><feOffset dx=90 dy=60 /></filter></svg><p style='filter:url(#f)'>SECRET</p>", most=ALL),
    Form("a first letter", "<style>p::first-letter{font-size:30px}</style><p>SECRET</p>"),
    Form("half of it", script("document.write('<p>It begins with '+S.slice(0,6)+' as you know</p>')")),
    Form("above a letter", "<ruby>x<rt>SECRET</rt></ruby>"),
    Form("a heading of fields", "<fieldset><legend>SECRET</legend>x</fieldset>"),
    Form("a summary", "<details open><summary>SECRET</summary>SECRET</details>"),
    Form("a dialog", "<dialog id=d>SECRET</dialog>" + script("d.showModal()")),
    Form("a popover", "<div id=d popover>SECRET</div>" + script("d.showPopover()")),
    Form("text that can be edited", "<div contenteditable>SECRET</div>"),
    Form("a formula", "<math><mtext>SECRET</mtext></math>"),
    Form("text that runs", "<marquee scrollamount=0>SECRET</marquee>"),
    Form("a plain file", "", (), pages={"/": "SECRET"}),
]  # fmt: skip

GENERATED = [
    Form("before", "<style>p::before{content:'SECRET'}</style><p>x</p>"),
    Form("after, from an attribute", "<style>p::after{content:attr(data-x)}</style><p data-x='SECRET'>x</p>"),
    Form("before, in columns", "<style>p::before{content:'SECRET SECRET SECRET'}</style><div style='columns:3;width:260px'><p>x</p></div>", most=MUCH),
    Form("half before, half after", script("document.write(`<style>p::before{content:'${S.slice(0,4)}'}p::after{content:'${S.slice(4)}'}</style><p></p>`)")),
    Form("a marker", "<style>li::marker{content:'SECRET'}</style><ul style='padding-left:150px'><li>x</ul>"),
    Form("a kind of list", "<ul style='padding-left:150px;list-style-type:\"SECRET\"'><li>x</ul>"),
    Form("a list inside", "<ul style='list-style:inside \"SECRET\"'><li>x</ul>"),
    Form("a way to count", "<style>@counter-style k{system:cyclic;symbols:'SECRET'}</style><ol style='padding-left:150px;list-style-type:k'><li>x</ol>"),
    Form("a quotation mark", "<q style='quotes:\"SECRET\" \"x\"'>y</q>"),
    Form("a summary's marker", "<style>summary::marker{content:'SECRET'}</style><details><summary>x</summary></details>"),
    Form("a file button", "<style>::file-selector-button{content:'x'}</style><input type=button value='SECRET'>"),
]  # fmt: skip

FIELDS = [
    Form("a field", "<input value='SECRET'>"),
    Form("a placeholder", "<input placeholder='SECRET'>"),
    Form("a text area", "<textarea>a SECRET b</textarea>", most=MUCH),
    Form("a text area's placeholder", "<textarea placeholder='SECRET'></textarea>", most=MUCH),
    Form("a field set by a script", "<input id=i type=search>" + script("i.value=S")),
    Form("a password made visible", "<input id=i type=password>" + script("i.value=S;i.type='text'")),
    Form("a password with its dots off", "<style>input{-webkit-text-security:none!important}</style><input id=i>" + script("i.value=S")),
    Form("one field for each letter", script("document.write([...S].map(c=>`<input size=1 value='${c}'>`).join(''))"), most=MUCH),
    Form("a button", "<input type=submit value='SECRET'>"),
    Form("a picture's button", "<input type=image alt='SECRET' src=/nope>"),
    Form("a list", "<select><option>SECRET</select>"),
    Form("a list, open", "<select style='position:fixed;left:10px;top:10px;width:150px'><option>a<option>SECRET</select>", (Click(60, 20), Wait(0.3)), most=MUCH),
    Form("a long list", "<select size=3><option>a<option>SECRET</select>", most=MUCH),
    Form("a list's label", "<select size=3><option label='SECRET'>a</option></select>", most=MUCH),
    Form("a group in a list", "<select size=3><optgroup label='SECRET'><option>a</optgroup></select>", most=MUCH),
    Form("a picture's text", "<img alt='SECRET' src=/nope width=200 height=40>"),
    Form("what a box says of a field", "<form><input id=i style='margin-top:90px'></form>" + script("i.setCustomValidity('not '+S);i.reportValidity()"), (Wait(0.3),), unseen=True),
    Form("what the browser says of a field", "<form><input id=i type=email style='margin-top:90px'></form>" + script("i.value=S;i.reportValidity()"), (Wait(0.3),), unseen=True),
    Form("words under a film", "<video id=v width=300 height=150 muted autoplay></video>" + script("c=document.createElement('canvas');p=c.getContext('2d');setInterval(()=>p.fillRect(0,0,9,9),30);v.srcObject=c.captureStream();t=v.addTextTrack('captions');t.mode='showing';t.addCue(new VTTCue(0,99,S))"), (Wait(0.5),), most=MUCH),
]  # fmt: skip

SHADOWS = [
    Form("an open shadow root", "<div id=h></div>" + script("h.attachShadow({mode:'open'}).innerHTML=`<p>${S}</p>`")),
    Form("a closed shadow root", "<div id=h></div>" + script("h.attachShadow({mode:'closed'}).innerHTML=`<p>${S}</p>`")),
    Form("a field in a closed shadow root", "<div id=h></div>" + script("h.attachShadow({mode:'closed'}).innerHTML=`<input value='${S}'>`")),
    Form("closed in closed", "<div id=h></div>" + script("r=h.attachShadow({mode:'closed'});r.innerHTML='<div></div>';r.firstChild.attachShadow({mode:'closed'}).innerHTML=`<p>${S}</p>`")),
    Form("declared closed", "<div><template shadowrootmode=closed><p>SECRET</p></template></div>"),
    Form("half in the light", "<div id=h></div>" + script("h.attachShadow({mode:'closed'}).innerHTML=`<p>${S.slice(0,4)}<slot></slot></p>`;h.append(S.slice(4))")),
]  # fmt: skip

FRAMES = [
    Form("a frame", f"<iframe{SPACE} src=/inner></iframe>", pages={"/inner": INNER}),
    Form("another site's frame", f"<iframe{SPACE} src=THERE/inner></iframe>", other={"/inner": INNER}),
    Form("a frame with its own text", f'<iframe{SPACE} srcdoc="<p>SECRET</p>"></iframe>'),
    Form("a frame in a sandbox", f"<iframe{SPACE} sandbox src=/inner></iframe>", pages={"/inner": INNER}),
    Form("a sandbox with its own text", f'<iframe{SPACE} sandbox srcdoc="<p>SECRET</p>"></iframe>'),
    Form("an empty frame that is written to", f"<iframe{SPACE} id=f></iframe>" + script("f.contentDocument.body.innerHTML=`<p>${S}</p>`")),
    Form("a frame of a blob", f"<iframe{SPACE} id=f></iframe>" + script("f.src=URL.createObjectURL(new Blob([`<p>${S}</p>`],{type:'text/html'}))"), (Wait(0.2),)),
    Form("a frame of data", f'<iframe{SPACE} src="data:text/html,<p>SECRET</p>"></iframe>'),
    Form("a frame in a frame", f"<iframe{SPACE} src=THERE/outer></iframe>", other={"/outer": f"<iframe{SPACE.replace('60px', '10px')} src=HERE/inner></iframe>"}, pages={"/inner": INNER}),
    Form("a framed frame", "<iframe style='border:9px solid;padding:13px' src=/inner></iframe>", pages={"/inner": INNER}),
    Form("a scrolled frame", f"<iframe{SPACE} src=/inner></iframe>", pages={"/inner": "<div style='height:900px'></div><p>SECRET</p>" + script("scrollTo(0,9999)")}),
    Form("a turned frame", "<iframe style='transform:rotate(10deg);margin:30px' src=/inner></iframe>", pages={"/inner": INNER}, most=MUCH),
    Form("columns in a frame", f"<iframe{SPACE} src=/inner></iframe>", pages={"/inner": "<div style='columns:3'>SECRET SECRET SECRET</div>"}, most=MUCH),
    Form("an object", "<object data=/inner width=300 height=100></object>", pages={"/inner": INNER}),
    Form("half in a frame", "<p style='margin:0;float:left' id=p></p><iframe id=f style='border:0;width:200px;height:19px;float:left'></iframe>" + script("p.textContent=S.slice(0,6);f.contentDocument.body.style='margin:0;font:16px monospace';f.contentDocument.body.append(S.slice(6))")),
    Form("a set of frames", "", (), pages={"/": "<frameset cols='50%,50%'><frame src=/inner><frame src=/inner></frameset>", "/inner": INNER}),
]  # fmt: skip

DRAWINGS = [
    Form("drawn text", "<svg width=200 height=60><text x=5 y=30>SECRET</text></svg>"),
    Form("drawn text in pieces", script("document.write('<svg width=200 height=60><text x=5 y=30>'+[...S].map(c=>`<tspan>${c}</tspan>`).join('')+'</text></svg>')")),
    Form("drawn text, turned", "<svg width=200 height=120><g transform='rotate(20)'><text x=5 y=30>SECRET</text></g></svg>", most=MUCH),
    Form("drawn text on a path", "<svg width=200 height=120><path id=a d='M10 60 Q100 0 190 60' fill=none /><text><textPath href='#a'>SECRET</textPath></text></svg>", most=MUCH),
    Form("drawn text, used again", "<svg width=200 height=60><defs><text id=t y=30>SECRET</text></defs><use href='#t'/></svg>"),
    Form("drawn text with its letters placed", script("document.write(`<svg width=300 height=60><text y=30 x='${[...S].map((c,i)=>20*i)}'>${S}</text></svg>`)")),
    Form("drawn text as a pattern", "<svg width=300 height=100><pattern id=q width=150 height=50 patternUnits=userSpaceOnUse><text x=5 y=30>SECRET</text></pattern><rect width=300 height=100 fill='url(#q)'/></svg>", most=ALL),
    Form("drawn text as a mask", "<svg width=300 height=100><mask id=q><text x=5 y=30 fill=white>SECRET</text></mask><rect width=300 height=100 mask='url(#q)'/></svg>", most=ALL),
    Form("a page in a drawing", "<svg width=200 height=60><foreignObject width=200 height=60><p>SECRET</p></foreignObject></svg>"),
    Form("a drawing as a picture", f'<img src="data:image/svg+xml,{SVG}">'),
    Form("a drawing as a picture, encoded", "<img id=i>" + script("i.src='data:image/svg+xml;base64,'+btoa(" + SVG_LETTERS + ")"), (Wait(0.2),), most=MUCH),
    Form("a drawing as a blob", "<img id=i>" + script("i.src=URL.createObjectURL(new Blob([" + SVG_LETTERS + "],{type:'image/svg+xml'}))"), (Wait(0.2),), most=MUCH),
    Form("a drawing from the site", "<img src=/p.svg>", pages={"/p.svg": SVG}),
    Form("a drawing from the site without its name", "<img src=/picture>", pages={"/picture.svg": SVG}),
    Form("a drawing behind the page", f'<div style="width:220px;height:60px;background:url(&quot;data:image/svg+xml,{SVG.replace("#", "%23")}&quot;)"></div>'),
    Form("a drawing from the site behind the page", "<div style='width:220px;height:60px;background:url(/p.svg)'></div>", pages={"/p.svg": SVG}),
    Form("a drawing as content", f'<style>p::before{{content:url("data:image/svg+xml,{SVG}")}}</style><p>x</p>', most=MUCH),
    Form("a drawing as a list's mark", f"<ul style='padding-left:220px;list-style-image:url(\"data:image/svg+xml,{SVG.replace(chr(39), '%27')}\")'><li>x</ul>", most=MUCH),
    Form("a drawing as a mask", f'<div style="width:220px;height:60px;background:black;mask-image:url(&quot;data:image/svg+xml,{SVG}&quot;)"></div>'),
    Form("a drawing in a drawing", f'<svg width=220 height=60><image width=200 height=60 href="data:image/svg+xml,{SVG}"/></svg>'),
    Form("a drawing as an object", f'<object type="image/svg+xml" data="data:image/svg+xml,{SVG}"></object>', most=MUCH),
    Form("a drawing as a button", f'<input type=image src="data:image/svg+xml,{SVG}">'),
]  # fmt: skip

CANVASES = [
    Form("painted", CANVAS + script(PEN + "p.fillText(S,5,30)")),
    Form("painted letter by letter", CANVAS + script(PEN + "[...S].forEach((l,i)=>p.strokeText(l,5+14*i,30))")),
    Form("painted elsewhere first", CANVAS + script("k=document.createElement('canvas');q=k.getContext('2d');q.font='20px monospace';q.fillText(S,5,30);c.getContext('2d').drawImage(k,0,0)")),
    Form("painted and made a picture", "<img id=i>" + script("c=document.createElement('canvas');" + PEN + "p.fillText(S,5,30);i.src=c.toDataURL()"), (Wait(0.2),), most=MUCH),
    Form("painted and made a blob", "<img id=i>" + script("c=document.createElement('canvas');" + PEN + "p.fillText(S,5,30);c.toBlob(b=>i.src=URL.createObjectURL(b))"), (Wait(0.3),), most=MUCH),
    Form("painted and made a background", "<div id=i style='width:200px;height:60px'></div>" + script("c=document.createElement('canvas');" + PEN + "p.fillText(S,5,30);i.style.background=`url(${c.toDataURL()})`"), (Wait(0.2),)),
    Form("painted and filmed", "<video id=v width=300 height=150 muted autoplay></video>" + script("c=document.createElement('canvas');" + PEN + "p.fillText(S,5,30);v.srcObject=c.captureStream();setInterval(()=>p.fillText(S,5,30),30)"), (Wait(0.5),), most=MUCH),
    Form("painted in a worker", CANVAS + script("o=c.transferControlToOffscreen();w=new Worker(URL.createObjectURL(new Blob(['onmessage=e=>{p=e.data[0].getContext(\"2d\");p.font=\"20px monospace\";p.fillText(e.data[1],5,30)}'])));w.postMessage([o,S],[o])"), (Wait(0.5),), typed=True),
    Form("painted as a bitmap", CANVAS + script("k=new OffscreenCanvas(200,60);q=k.getContext('2d');q.font='20px monospace';q.fillText(S,5,30);c.getContext('bitmaprenderer').transferFromImageBitmap(k.transferToImageBitmap())")),
    Form("painted by a graphics card", CANVAS + script("""
      k=document.createElement('canvas');k.width=256;k.height=64;q=k.getContext('2d');q.fillStyle='white';q.fillRect(0,0,256,64);q.fillStyle='black';q.font='30px monospace';q.fillText(S,5,40);
      g=c.getContext('webgl');s=(t,x)=>{const o=g.createShader(t);g.shaderSource(o,x);g.compileShader(o);g.attachShader(P,o)};P=g.createProgram();
      s(g.VERTEX_SHADER,'attribute vec2 a;varying vec2 v;void main(){v=vec2(a.x,1.0-a.y);gl_Position=vec4(a*2.0-1.0,0,1);}');s(g.FRAGMENT_SHADER,'precision mediump float;varying vec2 v;uniform sampler2D t;void main(){gl_FragColor=texture2D(t,v);}');
      g.linkProgram(P);g.useProgram(P);g.bindTexture(g.TEXTURE_2D,g.createTexture());g.texImage2D(g.TEXTURE_2D,0,g.RGBA,g.RGBA,g.UNSIGNED_BYTE,k);g.texParameteri(g.TEXTURE_2D,g.TEXTURE_MIN_FILTER,g.LINEAR);
      g.bindBuffer(g.ARRAY_BUFFER,g.createBuffer());g.bufferData(g.ARRAY_BUFFER,new Float32Array([0,0,1,0,0,1,1,1]),g.STATIC_DRAW);g.enableVertexAttribArray(0);g.vertexAttribPointer(0,2,g.FLOAT,false,0,0);g.drawArrays(g.TRIANGLE_STRIP,0,4)"""), (Wait(0.3),)),
    Form("painted as points", CANVAS + script("k=new OffscreenCanvas(200,60);q=k.getContext('2d');q.font='20px monospace';q.fillText(S,5,30);c.getContext('2d').putImageData(q.getImageData(0,0,200,60),0,0)")),
    Form("painted from a drawing", CANVAS + script("i=new Image;i.onload=()=>c.getContext('2d').drawImage(i,0,0);i.src='data:image/svg+xml,'+encodeURIComponent(" + SVG_LETTERS + ")"), (Wait(0.3),), typed=True),
    Form("painted in a frame", f"<iframe{SPACE} src=THERE/inner></iframe>", other={"/inner": CANVAS + "<script>const S='SECRET';" + PEN + "p.fillText(S,5,30)</script>"}, most=MUCH),
    Form("painted in a frame made for it", script("f=document.createElement('iframe');document.body.append(f);c=f.contentDocument.createElement('canvas');f.contentDocument.body.append(c);" + PEN + "p.fillText(S,5,30)"), (Wait(0.2),), most=MUCH),
]  # fmt: skip

WINDOWS = [
    Form("an empty window that is written to", "<button style='position:fixed;left:0;top:0;width:200px;height:60px' onclick=\"w=window.open();w.document.write(`<p>${S}</p>`);w.document.close()\">x</button>", (Click(100, 30), Wait(0.3))),
    Form("a window of a blob", "<button style='position:fixed;left:0;top:0;width:200px;height:60px' onclick=\"window.open(window.URL.createObjectURL(new Blob([`<p>${S}</p>`],{type:'text/html'})))\">x</button>", (Click(100, 30), Wait(0.3))),
    Form("another site's window", "<button style='position:fixed;left:0;top:0;width:200px;height:60px' onclick=\"window.open('THERE/inner')\">x</button>", (Click(100, 30), Wait(0.3)), other={"/inner": INNER}),
    Form("a window that is painted", "<button style='position:fixed;left:0;top:0;width:200px;height:60px' onclick=\"w=window.open();c=w.document.createElement('canvas');w.document.body.append(c);" + PEN.replace('"', "'") + "p.fillText(S,5,30)\">x</button>", (Click(100, 30), Wait(0.3)), most=MUCH),
    Form("a picture of the page before", "<p id=p style='font-size:30px'>SECRET</p><style>::view-transition-old(root){animation:none;opacity:1}::view-transition-group(*){animation-duration:60s}::view-transition-new(root){animation:none;opacity:0}</style>" + script("document.startViewTransition(()=>{p.textContent='gone'})"), (Wait(0.3),), unseen=True),
]  # fmt: skip

TRICKS = [
    Form("marks beside letters", script("document.write('<p style=\"margin:40px\">'+[...S].map(c=>`<span style=\"text-emphasis:'${c}'\">o</span>`).join('')+'</p>')")),
    Form("a sign where words break", "<p lang=en style=\"width:60px;hyphens:manual;hyphenate-character:'SECRET'\">hyphen&shy;ation&shy;of words</p>", most=MUCH),
    Form("letters that say they are flat", "<style>@font-face{font-family:f;src:local('DejaVu Sans Mono'),local('Liberation Mono');ascent-override:0%;descent-override:0%;line-gap-override:0%}</style><p style='font:40px f;margin:90px 20px'>SECRET</p>", most=MUCH),
    Form("flat letters before", "<style>@font-face{font-family:f;src:local('DejaVu Sans Mono'),local('Liberation Mono');ascent-override:0%;descent-override:0%;line-gap-override:0%}p::before{content:'SECRET'}</style><p style='font:40px f;margin:90px 20px'>x</p>", most=MUCH),
    Form("letters over each other", "<p style='font-size:40px;letter-spacing:-20px'>SECRET</p>", most=MUCH),
    Form("letters moved by transforms", script("[...S].map((c,i)=>[c,i]).sort((a,b)=>a[0]<b[0]?-1:1).forEach(([c,i])=>document.write(`<b style=\"position:fixed;top:100px;left:10px;transform:translate(${14*i}px)\">${c}</b>`))"), most=MUCH),
    Form("drawn letters, each in its place", script("o=[...S].map((c,i)=>[c,i]).sort((a,b)=>a[0]<b[0]?-1:1);document.write(`<svg width=300 height=60><text y=30 x='${o.map(p=>20*p[1])}'>${o.map(p=>p[0]).join('')}</text></svg>`)")),
    Form("a drawing with names for letters", "<img id=j>" + script("o=[...S].map((c,i)=>[c,i]).sort((a,b)=>a[0]<b[0]?-1:1);j.src='data:image/svg+xml,'+encodeURIComponent('<!DOCTYPE svg ['+o.map(([c,i])=>`<!ENTITY a${i} \"${c}\">`).join('')+']><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"60\"><text y=\"30\">'+[...S].map((c,i)=>`&a${i};`).join('')+'</text></svg>')"), (Wait(0.2),), typed=True, most=MUCH),
    Form("a filter's picture", f"<svg width=220 height=60><filter id=f x=0 y=0 width=1 height=1><feImage href=\"data:image/svg+xml,{SVG}\"/></filter><rect width=220 height=60 filter='url(#f)'/></svg>", most=ALL),
    Form("a painting, reflected", CANVAS.replace("<canvas", "<canvas style='-webkit-box-reflect:below 9px'") + script(PEN + "p.fillText(S,5,30)"), most=ALL),
    Form("a filter from an address", "<p id=k style='width:220px;height:60px'>x</p>" + script("k.style.filter='url(\"data:image/svg+xml,'+encodeURIComponent('<svg xmlns=\\'http://www.w3.org/2000/svg\\'><filter id=\\'f\\' x=\\'0\\' y=\\'0\\' width=\\'1\\' height=\\'1\\'><feImage href=\\'data:image/svg+xml,'+encodeURIComponent(" + SVG_LETTERS + ")+'\\'/></filter></svg>')+'#f\")'"), (Wait(0.2),), most=ALL, typed=True),
    Form("a mask around an element", f'<div style="width:220px;height:60px;background:black;-webkit-mask-box-image:url(&quot;data:image/svg+xml,{SVG}&quot;)"></div>', most=MUCH),
    Form("a drawing of another file, used here", "<svg width=220 height=60><use href='/p.svg#t'/></svg>", (Wait(0.3),), pages={"/p.svg": SVG.replace("<text", "<text id='t'")}),
    Form("the same in a closed shadow root", "<div id=h></div>" + script("h.attachShadow({mode:'closed'}).innerHTML='<svg width=220 height=60><use href=\"/p.svg#t\"/></svg>'"), (Wait(0.3),), pages={"/p.svg": SVG.replace("<text", "<text id='t'")}),
    Form("an enlarged frame", "<iframe style='zoom:2;width:180px;height:80px' src=/inner></iframe>", pages={"/inner": INNER}, most=0.6),
    Form("a button to scroll", "<style>div{overflow:auto;width:200px;height:60px}div::scroll-button(down){content:'SECRET'}</style><div><p style='height:900px'>x</div>", unseen=True),
    Form("a mark to scroll to", "<style>ul{overflow:auto;width:200px;height:60px;scroll-marker-group:after}li{height:300px}li::scroll-marker{content:'SECRET'}</style><ul><li>x<li>y</ul>", unseen=True),
]  # fmt: skip

FORMS = [*TEXT, *GENERATED, *FIELDS, *SHADOWS, *FRAMES, *DRAWINGS, *CANVASES, *WINDOWS, *TRICKS]
