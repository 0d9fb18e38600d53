/*
Package pmix answers the PMIx clients inside the ranks of one node (pmix-wire.md).

There is one Server for a helper and its job, on a port of the loopback, and it serves all groups
of the node. A client has to show who it is, by what the kernel says of its socket and by a
namespace that nobody can guess; then it asks, and is answered in any order.

	client                            Server                         others
	  | connect ----------------------> |  a newcomer: time and room are short
	  | Handshake --------------------> |  whose socket? which rank?   the kernel
	  | <--------------------- Welcome  |  from now on a client of that rank
	  | REQ --------------------------> |  where is which rank?        mpiexec, once
	  | <-------------------- job info  |
	  | COMMIT -----------------------> |  kept, as bytes
	  | FENCE ------------------------> |  meeting of a set: fence.Local ---> other nodes
	  | <---------------------- status  |
	  | GET --------------------------> |  what the rank has committed, at once or when it has;
	  |                                 |  of another node's: Fetcher ---------> the node's Server (Supply)
	  | <------------------ all of it   |
	  | FINALIZE ---------------------> |

	server.go     Server, its groups, and who may come in
	client.go     one connection: messages in, answers out
	answers.go    the table: what is done about each request
	data.go       what ranks have committed, and who waits for it
	gets.go       Gets of ranks of this node
	waiters.go    those that wait, by the key that they want
	ahead.go      what a client is told before it asks
	fetches.go    those of ranks of other nodes
	events.go     events that ranks tell others of
	meeting.go    fences of any set of processes, also those by which groups connect
	names.go      what is published, which mpiexec keeps
	spawn.go      programs that ranks start, as pmiserver/spawn has them
	elsewhere.go  groups of the job that have no ranks here
	groups.go     groups that processes make of themselves, at a fence
	doing.go      for what ranks wait
	set.go        the one name of a set
	outbox.go     what waits to be written to a client

What a message looks like is known below, in bfrops and message, and what a group is told of
itself in jobinfo; both are pure. This package starts and ends no processes: it reports (Events),
and who supervises the job decides.
*/
package pmix
