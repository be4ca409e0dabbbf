"""Many machines as one: replicas of a model behind one entrance, with sessions that stay, move and survive.

    holotron serve MODEL --replicas 4

One process is the entrance (`entrance`): it has the address that clients know, asks for keys, and sends each request to
the replica where its conversation lives (`router`). Replicas are servers of their own, in processes of their own, that
nobody else can talk to. Who starts them (`launching`: this machine; `ray_cluster`: Ray) sees to it that they live
(`supervising`). docs/fleet.md tells it all.
"""
