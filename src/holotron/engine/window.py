"""Clients that send their whole history every time, but only the last few pictures of it.

Most agents do: an old screenshot costs thousands of tokens and says little. Their next prompt has lost its oldest
picture, so it parts from the last one exactly where that picture began; and a recurrent state cannot be cut back:

    last prompt   system  text 1  reply 1  [picture 2]  text 2  reply 2  [picture 3]  text 3
    next prompt   system  text 1  reply 1   text 2  reply 2  [picture 3]  text 3  reply 3  [picture 4]  text 4
                                           ^ the resume point

So the engine keeps the memory where the text ends before the first picture of every stateless request, on purpose,
before anybody parts from it. That is one more state; keys and values are shared. When the next request has come, the
rest of what the last one left is of no use to anybody, and is the first to be dropped.
"""

from __future__ import annotations

from holotron.engine.log import Log

MOST_PICTURES = 8  # whoever keeps more keeps everything: no resume point is held for that
MOST_LEAD = 16  # tokens by which logs may part before the picture


def window_start(log: Log, tag: int | None) -> int:
    """Where the text before the first picture ends, the tag that opens the picture not included; 0: nowhere."""
    if not log.pictures or len(log.pictures) > MOST_PICTURES:
        return 0
    start = log.pictures[0].start
    return start - 1 if start > 0 and tag is not None and log.ids[start - 1] == tag else start


def slid(old: Log, new: Log) -> bool:
    """Whether a log shows pictures of an older one, but not its first."""
    if len(old.pictures) < 2 or not new.pictures:
        return False
    first, *later = (picture.key for picture in old.pictures)
    shown = {picture.key for picture in new.pictures}
    return first not in shown and any(key in shown for key in later)
