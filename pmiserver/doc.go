/*
Package pmiserver serves PMI-1 and PMI-2 to the ranks of one node. It also exchanges, between the nodes of a job, the
keys that ranks put.

Each rank holds one end of a stream. The rank sends requests and the server replies; the rank always sends first. The
server keeps the rank's puts on the node. When the last local rank enters the barrier, the server sends them as one blob to
the fence coordinator in mpiexec (package fence lists the calls). The coordinator sends the blobs of all nodes to all
nodes. Then each server releases its ranks, and answers every get from its own copy.

	rank 0     rank 1             Server (helper)              Coordinator (mpiexec)
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
	  | <------------ get_result    |   (no message to mpiexec)    |

These are the packages. Each one stands above those that it imports.

	pmiserver     Server serves a group's ranks on one node, with a session for each connection.
	              Listener and RelaySingleton connect ranks that inherit no descriptor.
	pmi1, pmi2    The PMI versions: tables of requests. New commands are added there.
	pmiversion    The parts that PMI-1 and PMI-2 share: the rank, its server, request fields
	spawn         Spawn requests
	kvs, fence    The key-value space, and its exchange between nodes
	transcript    Recordings of conversations

A request takes this path: messagereader.go cuts it out of the stream, and session.go passes it to its PMI version. The
PMI version finds the request's table row. It replies from kvs, or calls the session (requests.go) for anything that
concerns other ranks. The next write sends the reply. The client's init selects the PMI version; both use one store and
one barrier. pmi-wire.md of the specification describes the protocols. Bare section numbers in comments refer to
pmi-wire.md.

A job has one group of ranks, and one more for each spawn. A Server serves one group on one
node. Its ranks share only the published names with other groups. The coordinator serves all
groups of the job.

	rank of k0         Server of k0        Spawner             Server of k1
	  | mcmd=spawn ------> |  Spawn(request) -> |  plan, prepare      |
	  |                    |                    |  New(preputs) ----> |
	  |                    |                    |  start              | <- init, get
	  | <-- spawn_result   | <---------- k1     |                     |

This package opens no connections, and starts and ends no processes. It reports events through
Abort, StateChanged and Broken, and calls Exchanger, Names and Spawner. The job's supervisor decides
what to do.
*/
package pmiserver
