"""Grounding benchmarks: one screenshot, one instruction, one click. Is it inside the target?

    holotron eval screenspot-pro:data/ScreenSpot-Pro --policy http://localhost:8000/v1
    holotron eval osworld-g:data/OSWorld-G/benchmark --policy holotron-mini

Each item is a task of one step, so everything that plays, records, resumes, compares and reports suites does so with
these. Read in this order: `items` (what an item is, when a click is right), `formats` (the published files),
`benchmarks` (which there are), `play` (as a suite).
"""
