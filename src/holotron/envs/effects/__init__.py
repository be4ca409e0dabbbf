"""Asking before the world changes: what an action brings about is held at the browser's network layer until somebody
has said yes.

    SessionOptions(rules=Rules())                  requests of this session are held and judged
    environment.ask_first(ask)                     who is asked: an async function of a `Question`

`question` is what is asked and answered, `rules` what needs no asking, `judging` which requests change the world,
`gate` where they are held. Names and labels on the page only improve the wording of a question.
"""
