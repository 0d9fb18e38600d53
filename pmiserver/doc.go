/*
Package pmiserver answers the PMI clients inside the ranks of one node, and lets
the nodes of a job exchange what the ranks have put.

Every rank holds one end of a stream on which it asks and we answer; its first
word is always its own. Puts are kept on the node. When the last local rank
enters the barrier they travel as one opaque blob to the hub in mpiexec, which
sends the blobs of all nodes to all nodes; then the ranks are released, and every
get is answered on the node.

	rank 0     rank 1             Server (helper)              Hub (mpiexec)
	  | init ---------------------> |                              |
	  | <------ response_to_init    |                              |
	  | put ----------------------> |                              |
	  | <------------ put_result    |                              |
	  | barrier_in ---------------> |                              |
	  |          | barrier_in ----> | Fence(id, puts of the node)  |
	  |          |                  | ---------------------------> |
	  |          |                  | <--------------------------- |
	  | <-------------- barrier_out |   blobs of all nodes         |
	  |          | <--- barrier_out |                              |
	  | get ----------------------> |                              |
	  | <------------ get_result    |   (no message: it is here)   |

The blobs are opaque to Fencer and Hub: in ours, pairs of length-prefixed keys
and values (blob.go). Every node gets the same blobs in the same order, its own
among them. Leaving its own out would save a node 1/N of the bytes (one of 1000
times 6 kB at 1,000 nodes of 64 ranks), but then each node's answer is another
one; as it is, mpiexec encodes and packs the answer once and sends the same
bytes 1,000 times, and a key put on two nodes has the same winner everywhere. The
hub holds each blob once, however many nodes there are. A fence to which nobody
brought anything is answered with no blobs at all.

What the fences have spread is a snapshot that never changes, behind an atomic
pointer; a barrier replaces it. So the gets of all ranks of a node share it
without a lock, and answering one allocates nothing.

A job has one group of ranks, and one more for each spawn. A server serves one
group on one node, and its ranks see and reach nothing of another group but the
published names; the hub serves all groups of the job.

	rank of k0         Server of k0        Spawner             Server of k1
	  | mcmd=spawn ------> |  Spawn(request) -> |  plan, prepare      |
	  |                    |                    |  New(preputs) ----> |
	  |                    |                    |  start              | <- init, get
	  | <-- spawn_result   | <---------- k1     |                     |

The files follow the path of a request: frame.go finds messages in a stream of
bytes, parse.go takes one apart, session.go serves a connection, pmi1.go and
pmi2.go say what each command of the two protocols means, spawnblock.go and
spawn.go how one spawns, ring.go what the ring is; store.go and barrier.go hold
what the ranks of a node share, hub.go and names.go what all nodes share; door.go
and singleton.go are the other two ways in which a rank comes to its server. The
protocols are in pmi-wire.md of the specification; section numbers in comments are
its own. A client chooses between the two by its init; both use one store and one
barrier.

This package opens no connections, starts and ends no processes: it reports
(Abort, Changed, Broken) and asks (Fencer, Names, Spawner), and who supervises the
job decides.
*/
package pmiserver
