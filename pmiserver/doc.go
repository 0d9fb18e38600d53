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

The rooms, each from what stands below it:

	pmiserver     Server: the ranks of a group on a node; a session for each connection;
	              Listener and Relay, the other ways in which a rank comes
	pmi1, pmi2    the dialects: tables of requests; a command is added there, with its vectors
	dialect       what dialects have in common: the rank, what is done for it, fields
	spawn         what a rank says when it asks for more
	kvs, fence    what was put, and how it is exchanged
	transcript    recordings of conversations

A request goes through them so: frame.go finds it in a stream of bytes, session.go hands it to
its dialect, which finds its row, answers from kvs or asks the session (acts.go) for what
concerns others, and what it answers is sent with the next write. A client chooses between
the dialects by its init; both use one store and one barrier. The protocols are in pmi-wire.md
of the specification; section numbers in comments are its own.

A job has one group of ranks, and one more for each spawn. A server serves one
group on one node, and its ranks see and reach nothing of another group but the
published names; the hub serves all groups of the job.

	rank of k0         Server of k0        Spawner             Server of k1
	  | mcmd=spawn ------> |  Spawn(request) -> |  plan, prepare      |
	  |                    |                    |  New(preputs) ----> |
	  |                    |                    |  start              | <- init, get
	  | <-- spawn_result   | <---------- k1     |                     |

This package opens no connections, starts and ends no processes: it reports
(Abort, Changed, Broken) and asks (Exchanger, Names, Spawner), and who supervises the
job decides.
*/
package pmiserver
