"""The pages themselves, as HTML: words, icons, styles, widgets, blocks, frames, and scripted episodes on them.

Nothing here needs a browser. `make.make_page(seed, index, ...)` is the way in: one random stream per page, so that
a page depends on its seed and number alone.
"""
