"""Records on disk that any Arrow tool can read and that no crash can lose or double: for rollouts, labels and pages.

    tables = Tables(format=1, head=Table("labels", schema))
    manifest = {"kind": "annotate", "config": config}
    with ShardedStore(folder, tables, manifest, shard_records=512, summary=lambda row: row["model"]) as store:
        store.append(row)                             # when this returns, a crash cannot lose it
        row["id"] in store.finished                   # also after a kill -9 and the same call again
    for row, parts in read_records(folder, tables): ...

Read in this order: `tables` (what a record is), `journal` (where it is first written), `shards` (Parquet, where it
ends), `store` (the two together), `manifest` (what was run, and whether this is the same run), `verify` (finds damage
and moves it aside). `files` holds every call to the file system.
"""
