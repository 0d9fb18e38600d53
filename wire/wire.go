/*
Package wire is the language mpiexec and its helpers speak.

The two ends are joined by one ordered byte stream: the stdin and stdout of the
helper, inside an SSH session or, on the local host, a pair of pipes.

	mpiexec                                      helper
	   | <----------------------- magic, Hello, NodeInfo   version, build; CPUs, load
	   | LockDecision ---------------------------------->  queue host only
	   | <------------------------------- DecisionLocked   who waits before us
	   | Survey ---------------------------------------->
	   | <------------------------------------- Surveyed   what live jobs hold, load, speed
	   | Prepare --------------------------------------->  ranks, environment, claim
	   | <----------- Prepared | Refused | ClaimConflict   ready | why not | by whom
	   | CancelPrepare | UnlockDecision ---------------->  plan again | let others decide
	   | Start ----------------------------------------->
	   | <--------------------------- Started, per rank    pid, or why exec failed
	   | <--------------------- Data -------------------->  stdin, stdout, stderr
	   | <---------------------------- PMIReport, Exited   per rank
	   | EndJob ---------------------------------------->  all ranks are over, or shall be
	   | <-------------------------------------- Drained   nothing of ours is left
	   | Bye ------------------------------------------->

That is the shortest job. Each phase is drawn in a file of its own, which has its messages, each with
its fields and what these may be: greet.go, queue.go, reserve.go and prepare.go, stage.go, run.go,
pmi.go; and for what is no job listing.go and exam.go. All are listed in table.go.

A helper whose input ends before Bye ends its ranks: that is how a job dies with its launcher.

A frame is one byte of kind, the length of the body as uvarint, and the body. In
a body a number is a zig-zag varint, a text or list its length and its elements,
in the order of the struct's fields. The package does not know who is on the
other end, nor what the blobs of a fence mean.
*/
package wire

// Version is the number of this language. Both ends are the same build in
// practice (the helper is delivered by its launcher), so it is compared for
// equality only.
const Version = 5

// A Message is one of the structs of this package that have a row in the table, as a pointer.
type Message interface {
	fields(c *codec)
}
