/*
Package wire is the language mpiexec and its helpers speak.

The two ends are joined by one ordered byte stream: the stdin and stdout of the
helper, inside an SSH session or, on the local host, a pair of pipes.

	mpiexec                                      helper
	   | <--------------------------- magic, Hello, Node   version, build; CPUs, load
	   | Gate ------------------------------------------>  queue host only
	   | <---------------------------------------- Gated   who waits before us
	   | Survey ---------------------------------------->
	   | <------------------------------------- Surveyed   what live jobs hold, load
	   | Prepare --------------------------------------->  ranks, environment, claim
	   | <------------------- Prepared | Refused | Taken   ready | why not | by whom
	   | Release | Ungate ------------------------------>  plan again | let others decide
	   | Stage ----------------------------------------->  files that the ranks need
	   | <---------------------------------------- Wanted  those that are not there
	   | Piece ----------------------------------------->  with leave: Took
	   | <---------------------------------------- Staged  they are there, or why not
	   | Start ----------------------------------------->
	   | <--------------------------- Started, per rank    pid, or why exec failed
	   | Data(stdin) ----------------------------------->
	   | <------------------ Data(stdout), Data(stderr)
	   | <------------------------------------- Fence      what the local ranks put
	   | Fenced ---------------------------------------->  what all ranks put
	   | Signal ---------------------------------------->
	   | Inspect --------------------------------------->
	   | <---------------------------------------- States  what each rank is doing
	   | <--------------------------------- PMI, Exited    per rank
	   | <---------------------------------------- Trace   if it is wanted
	   | <-------------------------------- Name | Spawn    a rank asks for a name, or for
	   | Named | Spawned ------------------------------->  more ranks
	   | <---------------------------------------- Peers   a rank asks which are where
	   | Peered ---------------------------------------->
	   | End ------------------------------------------->  all ranks are over, or shall be
	   | <-------------------------------------- Emptied   after a second: output alone is left
	   | <-------------------------------------- Drained   nothing of ours is left
	   | Bye ------------------------------------------->

A request that has to wait says Enqueue to the queue host, and hears Queued whenever
its position changes; at the head it says Watch to its nodes, and hears Changed when
it may be worth to try again, from Gate on.

Either side may send Credit and Ping at any time, a helper Log. A helper whose input ends before
Bye ends its ranks: that is how a job dies with its launcher.

Data is the only message that flows without bound, so it alone needs leave: a
sender may have Window bytes of a stream under way (of an output stream as many as
Prepare says), and gets more by Credit when
the receiver has passed bytes on. Empty Data is the end of a stream, or, against
the stream's direction, the news that nobody reads it any more. Fences and
commands are few and need no credit.

A frame is one byte of kind, the length of the body as uvarint, and the body. In
a body a number is a zig-zag varint, a text or list its length and its elements,
in the order of the struct's fields. The package does not know who is on the
other end, nor what the blobs of a fence mean.
*/
package wire

import (
	"time"

	"remshell/job"
	"remshell/pmiserver"
)

// Version is the number of this language. Both ends are the same build in
// practice (the helper is delivered by its launcher), so it is compared for
// equality only.
const Version = 5

// Window is how many bytes of one stream may be under way without Credit.
const Window = 64 << 10

// StacksTime is how long a helper may take to find out where its ranks are.
const StacksTime = 4 * time.Second

// A request that waits says Ping every PingEvery; without any for PingPatience its
// place is lost.
const (
	PingEvery    = 5 * time.Second
	PingPatience = 15 * time.Second
)

// A Stream is one of the three standard streams of a rank.
type Stream int

// The streams, numbered as their descriptors.
const (
	Stdin Stream = iota
	Stdout
	Stderr
)

// A Message is one of the structs below, as a pointer.
type Message interface {
	kind() byte
	fields(c *codec)
}

type (
	// Hello is the first message of a helper.
	Hello struct {
		Version int
		Build   string // identity of the binary, see package reach
		Release string // its version for people
		Host    string // the node's own name for itself
		PID     int
	}

	// Node tells what the machine is and how busy.
	Node struct {
		Probe job.Probe
		Err   string // the machine could not be read; Probe is then void
	}

	// Prepared says that everything that can fail before a start is done. With Notice there
	// is no claim: other jobs may use the same CPUs. Where rank 0 is and torch's variables
	// are wanted, Meet is where all ranks can meet: an address and a free port.
	Prepared struct{ Group, Notice, Meet string }

	// Refused says why this node cannot take its ranks. Code is the exit code of
	// cli.md section 7 that fits: 126, 127 or 125.
	Refused struct {
		Group  string
		Code   int
		Reason string
		Hint   string
	}

	// Taken answers Prepare when another job has, meanwhile, what the plan gives this
	// one. Nothing is claimed.
	Taken struct{ Group, Reason string }

	// Release takes a Prepare back: another node had been taken.
	Release struct{ Group string }

	// Gate asks for the gate of the queue, behind which one request at a time decides
	// (placement.md 6.4). The helper is that of the queue host.
	// With Alone the job is this node's alone: then nobody needs to decide one after
	// the other, and the answer only tells who waits.
	Gate struct {
		Ledger string
		Alone  bool
	}

	// Gated says that it is our turn to decide, and how many requests wait before this
	// one. With Notice the gate was not to be had, and the decision is not alone.
	Gated struct {
		Ahead  int
		Notice string
	}

	// Ungate lets the gate go.
	Ungate struct{}

	// Survey asks what live jobs hold of the node. What belongs to the job Inside, and to
	// those it is inside of itself, does not count; nor what belongs to the job Own.
	Survey struct {
		Ledger string
		Inside job.ID
		Own    job.ID

		Without []int // users, by number, whose claims do not count either (TRUST-18)
	}

	// Surveyed answers Survey. Inside says that the job named there runs here indeed, and
	// has all that the helper could use. With Notice the ledger cannot be used: jobs on this node are not kept apart.
	// Barred says why the node's administrator lets nothing of ours run there, and if it is
	// Limited he lets so many ranks of all jobs run at most.
	Surveyed struct {
		Inside  bool
		Barred  string
		Limited bool
		Most    int
		Use     job.Use
		Load    [3]float64
		Notice  string
	}

	// Enqueue puts a request into the queue, whose host the helper's is. The place is
	// lost when the connection ends, or Ping does not come for PingPatience.
	Enqueue struct {
		Ledger string
		Ticket job.Ticket
	}

	// Queued tells the position: requests ahead, and all that wait. With Err there is
	// no place, or no longer.
	Queued struct {
		Ahead, Total int
		Err          string
		Head         job.Ticket // the first of those ahead, if there are any
	}

	// Pass goes ahead of all that a user has in the queue now (TRUST-18), or of one ticket
	// of his that can never be satisfied. The answer is Queued.
	Pass struct {
		UID    int
		Number int64 // of that ticket; 0: all
	}

	// Dequeue gives the place up.
	Dequeue struct{}

	// Watch asks for Changed whenever a claim on the node comes or goes.
	Watch struct{ Ledger string }

	// Changed answers Watch, again and again.
	Changed struct{}

	// List asks for all that the ledger holds.
	// With Job also what the ranks of that job on the node are doing.
	List struct {
		Ledger string
		Job    job.ID
	}

	// Listed answers List. With Err the ledger cannot be read. Where is the directory and the
	// number under which this node's entries are in it (TRUST-20).
	Listed struct {
		Where   string
		Claims  []job.Claim
		Tickets []job.Ticket
		States  []job.RankState
		Err     string
	}

	// Evict ends the holders of a job's claims and tickets, and removes those (TRUST-19).
	Evict struct {
		Ledger string
		Job    job.ID
	}

	// Evicted answers Evict: what was done, or why nothing was. Left says that something is
	// still held.
	Evicted struct {
		Done []string
		Left bool
		Err  string
	}

	// Alert sends a signal to the ranks of another job on the node, if the user may.
	Alert struct {
		Ledger string
		Job    job.ID
		Number int
	}

	// Alerted answers Alert: how many ranks got the signal, or why none did.
	Alerted struct {
		Ranks int
		Err   string
	}

	// Start lets the prepared ranks of a group go. Meet is that of Prepared.
	Start struct{ Group, Meet string }

	// Prune kills the ranks of a group of which one could not be started.
	Prune struct{ Group string }

	// Started tells of one rank. With Err the exec failed; Code is then 126 or 127, or
	// 125 if it could not be bound. CPUs and Mems are those to which the kernel says it
	// is bound; nil: to none.
	Started struct {
		Rank, PID, Code int
		Err, Hint       string
		CPUs, Mems      []int
	}

	// Data is a piece of a stream, at most Window bytes. See Lend.
	Data struct {
		Rank   int
		Stream Stream
		Bytes  []byte
		lent   *buffer // where Bytes are, if that is to be used again
	}

	// Credit gives leave for so many bytes more.
	Credit struct {
		Rank   int
		Stream Stream
		Bytes  int
	}

	// Fence brings what the ranks of one node put since the last fence.
	Fence struct {
		ID   string
		Blob []byte
	}

	// Fenced answers Fence with what each node brought. Packed are the blobs in another
	// form, a list deflated, and Size its length before; see FrameFor and Unpack.
	Fenced struct {
		ID     string
		Blobs  [][]byte
		Err    string
		Size   int
		Packed []byte
	}

	// Resize says how large the terminal is now.
	Resize struct{ Rows, Cols int }

	// Signal sends a signal to the process groups of all ranks of the node.
	Signal struct{ Number int }

	// End ends what is left of the job on the node: leave for Linger to end by
	// itself, then SIGTERM, then after Grace SIGKILL.
	End struct{ Linger, Grace time.Duration }

	// PMI is news about a rank that the PMI server noticed.
	PMI struct {
		Rank  int
		Event PMIEvent
		Code  int    // of an abort, 0 to 255
		Text  string // for people
	}

	// Exited reports the end of a rank, after its output was sent.
	Exited struct{ Exit job.Exit }

	// Emptied says that no process of the job is left on the node, where Drained waits for
	// somebody to take what they last wrote.
	Emptied struct{}

	// Drained says that no process of the job is left on the node, and what those
	// consumed that outlived their ranks.
	Drained struct{ Orphans []job.Orphan }

	// Lay asks to lay a word open where only the same machine and name spaces can see it, in
	// the directory of shared memory, and Laid says why that could not be. Seek asks for the
	// words that lie there under the same tag: so two names are shown to be one machine, which
	// nobody is believed by his word alone (TRUST-6).
	Lay struct{ Tag, Word string }
	// Laid answers Lay.
	Laid struct{ Err string }
	// Seek asks what lies open.
	Seek struct{ Tag string }
	// Sought answers Seek.
	Sought struct{ Words []string }

	// Inspect asks what each rank of the node is doing, with Stacks also where it is; then the
	// answer may take StacksTime longer.
	Inspect struct{ Stacks bool }

	// States answers Inspect.
	States struct{ Ranks []job.RankState }

	// Name is a rank's request to the table of published names, of which a job has one.
	// ID is the helper's, for the answer.
	Name struct {
		ID            int
		Op            NameOp
		Service, Port string
	}

	// Named answers Name: whether it was published, found or withdrawn, and the port that
	// was found.
	Named struct {
		ID        int
		Yes       bool
		Port, Err string
	}

	// Spawn asks for more ranks, on behalf of one of the node's. ID is the helper's, for
	// the answer. Fault is why it cannot be done: a file that the request names, and that
	// the helper was to read.
	Spawn struct {
		ID      int
		Request pmiserver.SpawnRequest
		Fault   string
	}

	// Spawned answers Spawn when all of them run, or says why none does. Codes are those
	// of pmiserver.Spawner.
	Spawned struct {
		ID    int
		Group string
		Codes []int
		Err   string
	}

	// Peers asks on behalf of a rank which ranks of its group are where, as only old clients
	// do. ID is the helper's, for the answer.
	Peers struct {
		ID    int
		Group string
	}

	// Peered answers Peers: the nodes of the group, as the user wrote them, and of each
	// rank the number of its node among them.
	Peered struct {
		ID    int
		Nodes []string
		Of    []int
	}

	// Trace is a line of what a rank and its PMI server say, as pmiserver.Server.Trace has
	// it, or a word that a transcript has.
	Trace struct {
		Rank int
		Line string
	}

	// Log is a line of the helper's log: a warning, or what only some want to know.
	Log struct {
		Warning bool
		Text    string
	}

	// Ping tells a helper that keeps a place in the queue that somebody still waits
	// there: a stopped mpiexec must not stop all others. It has no answer.
	Ping struct{}

	// Bye ends the conversation; the helper leaves.
	Bye struct{}
)

// A PMIEvent is what a PMI message tells. Each ends the job, sooner or later.
type PMIEvent int

// The events.
const (
	PMIAborted PMIEvent = iota + 1 // the rank asked for the end of the job
	PMIBroken                      // a barrier can never complete
	PMIJunk                        // the rank said what no client says
	PMILost                        // the rank's connection ended before finalize
)

// A NameOp is what is to be done with a name.
type NameOp int

// The operations.
const (
	Publish NameOp = iota + 1
	Lookup
	Unpublish
)
