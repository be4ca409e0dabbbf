"""Labelled screens to learn from: pages made by the million, with everything on them known exactly.

Two makers, one label format (`labels.Page`):

- `synth`: real HTML and CSS in real Chromium; boxes, characters and states come from the DOM. Short episodes are
  played in the same browser.
- `drawn`: pages painted with Pillow, a hundred times cheaper, for machines without a browser. They teach reading.

`samples` turns either kind of page into instructions with answers; `shards` stores and reads pages (Parquet);
`heldout` says which themes, fonts and layouts are never trained on.
"""
