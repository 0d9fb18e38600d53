/*
Package pmix answers the PMIx clients inside the ranks of one node (pmix-wire.md).

Each helper runs one Server for its job. It listens on a port of the loopback interface and serves all groups of
ranks of the node. A client authenticates by the owner of its socket, which the kernel reports, and by a namespace that
nobody can guess. Then it sends requests, and the replies may come in any order.

	client                            Server                         others
	  | connect ----------------------> |  pending: short deadline, few connections
	  | Handshake --------------------> |  owner of the socket? rank?   the kernel
	  | <--------------------- Welcome  |  now a client of that rank
	  | REQ --------------------------> |  where does each rank run?    mpiexec, once
	  | <-------------------- job info  |
	  | COMMIT -----------------------> |  stored as encoded bytes
	  | FENCE ------------------------> |  collective: fence.Local ------> other nodes
	  | <---------------------- status  |
	  | GET --------------------------> |  data of a local rank, at once or when it commits;
	  |                                 |  of a remote rank: Fetcher ---> its node's Server (ServeFetch)
	  | <----------------------- data   |
	  | FINALIZE ---------------------> |

	server.go      Server, its groups, and authentication of connections
	client.go      one connection: reads requests, writes replies
	requests.go    selects the function that handles a request
	committed.go   data that ranks have committed
	gets.go        Gets of data of local ranks
	getqueue.go    Gets that wait, by key
	readahead.go   sends data of further ranks together with a reply
	fetches.go     Gets of data of ranks of other nodes
	events.go      events that ranks send to other ranks
	collective.go  fences of any set of processes, also for connect and disconnect
	otherjobs.go   connect and disconnect with processes of other jobs
	names.go       published names, which mpiexec stores
	spawn.go       programs that ranks start with PMIx_Spawn
	groupfinder.go groups of the job that have no ranks on this node
	groups.go      PMIx groups (MPI_Comm_create_from_group)
	waiting.go     lists what each rank waits for
	procset.go     canonical form of a set of processes
	outbox.go      queue of messages to a client

Packages bfrops and message encode and decode messages; package jobinfo builds the job info of a group. None of the
three performs I/O. This package starts and ends no processes. It reports to Events, and the supervision of the job
decides what happens.
*/
package pmix
