/*
Package wire is the protocol between mpiexec and its helpers.

One ordered byte stream connects mpiexec with each helper. Usually it consists of the stdin and stdout of the helper,
through an SSH session or, on the local host, through a pair of pipes (package transport).

	mpiexec                                      helper
	   | <----------------------- magic, Hello, NodeInfo   version, build; CPUs, load
	   | LockDecision ---------------------------------->  queue host only
	   | <------------------------------- DecisionLocked   length of the queue
	   | Survey ---------------------------------------->
	   | <------------------------------------- Surveyed   claims of other jobs, load, speed
	   | Prepare --------------------------------------->  ranks, environment, claim
	   | <----------- Prepared | Refused | ClaimConflict   ready | why not | other job
	   | CancelPrepare | UnlockDecision ---------------->  plan again | release the lock
	   | Start ----------------------------------------->
	   | <--------------------------- Started, per rank    pid, or why exec failed
	   | <--------------------- Data -------------------->  stdin, stdout, stderr
	   | <---------------------------- PMIReport, Exited   per rank
	   | EndJob ---------------------------------------->  end all ranks that are left
	   | <-------------------------------------- Drained   no process of the job is left
	   | Bye ------------------------------------------->

The diagram shows the shortest job. Each phase has a file with a diagram and its messages: hello.go,
queue.go, reserve.go and prepare.go, run.go, pmi.go. Operations outside of a job are in
ledger.go and diagnose.go. These files list the fields of each message and their valid values. table.go
contains the table of all messages. A request declares its reply by AnsweredBy (request.go).

If the helper's input ends before Bye, the helper ends its ranks. So a job ends when its mpiexec dies.

A frame is one byte for the kind, the length of the body as uvarint, and the body. In a body, a number is a zig-zag
varint. A text or list is its length followed by its elements. Fields follow each other in the order of the struct.
The package does not know which program is at the other end, and does not decode the blobs of a fence.
*/
package wire

// Version is the version of this protocol. Both sides must have the same version. Usually both sides are the same
// build, because mpiexec copies its own binary to the nodes.
const Version = 5

// A Message is a pointer to a struct whose type has a row in the table of kinds.
type Message interface {
	// Fields reads or writes the fields of the message, in their order.
	Fields(c *Codec)
}
