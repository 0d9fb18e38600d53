package pmiserver

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/kvs"
	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmi2"
	"remshell/pmiserver/spawn"
)

// An Info is what a server tells the ranks of its node about their group. It is
// read only after New.
type Info struct {
	Name     string // of the group and its key-value space: [A-Za-z0-9_.-], at most 40 bytes
	Size     int    // ranks of the group, on all nodes
	Universe int    // processes that would fit; 0: unknown
	Ranks    []int  // the ranks of this node, in local order
	Mapping  string // PMI_process_mapping; empty: keys of that name are not found

	// A group that was spawned has a parent, the group that asked for it, and finds
	// these pairs from the first moment, the later of equal keys. Its ranks also need
	// PMI_SPAWNED=1 in their environment.
	Parent  string
	Preputs []spawn.Pair

	// AppNum returns which section of the command line a rank belongs to,
	// counted from 0; nil: all to the first.
	AppNum func(rank int) int
}

// A Server answers the ranks of one node that belong to one group. Its fields
// are set before the first Serve. The functions may be nil; they are called from
// the goroutines of the ranks, without locks held, and should return soon.
type Server struct {
	// Trace is shown all that is said, as a transcript has it after the rank:
	// "< " and a line of the rank, "> " and a line of ours, "<; " and ">; " for
	// the body of a PMI-2 message.
	Trace func(rank int, line string)

	// Abort is called once, for the first rank that asks for the end of the job.
	// code is the exit status this stands for, 0 to 255; message may be empty.
	// From then on the server is frozen.
	Abort func(rank, code int, message string)

	// AbortRequested is told of every rank that asks for the end of the job.
	AbortRequested func(rank int)

	// StateChanged is told each step a rank takes.
	StateChanged func(rank int, from, to State)

	// BarrierEntered is told of every rank that enters a barrier.
	BarrierEntered func(rank int)

	// Broken is called once, when a barrier can never complete: err is a
	// *fence.StuckError, or says why the fence failed. No barrier is released after.
	Broken func(err error)

	// Note is told of oddities that disturb nobody, for a log.
	Note func(rank int, text string)

	// Names is the table of published names; nil: name service is refused.
	Names Names

	// Spawner starts what ranks ask for; nil: requests to spawn are refused.
	Spawner spawn.Spawner

	// Hosts returns the names of the group's nodes, and of each rank the number of its node
	// among them, for get_ranks2hosts, which only Intel MPI 2018 and older asks; nil: that
	// request is refused. It may take its time.
	Hosts func(ctx context.Context) (nodes []string, of []int, err error)

	info      Info
	local     map[int]int // index in info.Ranks, by rank
	mapping   []byte      // info.Mapping
	store     *kvs.Store
	nodeAttrs pmi2.NodeAttrs
	fence     fence.Local            // of the whole group
	deadRanks atomic.Pointer[string] // as SetDead said; nil: nothing yet
	frozen    atomic.Bool            // answer nothing, release nobody

	mu      sync.Mutex // guards what follows
	states  []State    // by local index
	aborted bool
}

// New returns a server for the ranks of one node. others takes its fences to the group's
// other nodes; nil: there are none.
func New(info Info, others fence.Exchanger) *Server {
	var preputs []byte
	for _, p := range info.Preputs {
		preputs = kvs.AppendPair(preputs, []byte(p.Key), []byte(p.Value))
	}
	s := &Server{
		info:    info,
		mapping: []byte(info.Mapping),
		local:   make(map[int]int, len(info.Ranks)),
		states:  make([]State, len(info.Ranks)),
		store:   kvs.New(preputs),
	}
	for i, rank := range info.Ranks {
		s.local[rank] = i
	}
	s.nodeAttrs.Store = s.store
	s.fence.Members, s.fence.Ranks, s.fence.OtherNodes = fence.WholeGroup(info.Name), info.Ranks, others
	s.fence.Decode, s.fence.Broken = s.decodeFence, s.reportBroken
	return s
}

// decodeFence reads what a fence has spread, and returns what makes it visible.
func (s *Server) decodeFence(all [][]byte) (show func(), err error) {
	next, err := s.store.NextSnapshot(all)
	return func() { s.store.SetSnapshot(next) }, err
}

func (s *Server) reportBroken(err error) {
	if s.Broken != nil {
		s.Broken(err)
	}
}

// Serve answers one rank until its connection ends, and says how it ended: nil
// is the end of a rank that has finalized, or has never said init, or has
// aborted; ErrUnfinalized the end of one in between; a *ProtocolError means that
// the rank said what no client says, and counts as its abnormal death
// (pmi-wire.md 6.2 and 6.4). The caller closes conn. If conn is an io.Closer it
// is also closed when ctx ends, and Serve returns the context's error. A rank
// whose connection has ended well may be served again; one that is being served,
// or was lost, may not, and the error is ErrTaken.
//
// A rank's last words may still be under way when its process has ended: wait
// for Serve before judging the exit, or an abort is taken for a crash.
func (s *Server) Serve(ctx context.Context, rank int, conn io.ReadWriter) error {
	return s.serve(ctx, rank, conn, identifiedConn{id: rank})
}

// An identifiedConn is how a rank came to its server.
type identifiedConn struct {
	input     messageReader // what it has said already
	id        int           // what it may call itself
	connected func()        // told when the connection is the rank's; may be nil
}

func (s *Server) serve(ctx context.Context, rank int, conn io.ReadWriter, a identifiedConn) error {
	local, ours := s.local[rank]
	if !ours {
		return fmt.Errorf("pmi: rank %d: not a rank of this node", rank)
	}
	if err := s.connectRank(local, rank); err != nil {
		return err
	}
	if a.connected != nil {
		a.connected()
	}
	if closer, ok := conn.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { closer.Close() })
		defer stop()
	}
	life, end := context.WithCancel(ctx)
	c := s.newSession(life, local, conn, a)
	err := c.run(conn)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	end()
	c.pending.Wait()
	s.disconnectRank(c, err)
	return err
}

// State returns how far a rank has come: Absent for one of another node.
func (s *Server) State(rank int) State {
	local, ours := s.local[rank]
	if !ours {
		return Absent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[local]
}

// Exited tells the server that the process of a rank of this node has ended. Its
// connection may live on in a descendant; the barriers do not wait for that one
// (pmi-wire.md 6.1).
func (s *Server) Exited(rank int) {
	local, ours := s.local[rank]
	if !ours {
		return
	}
	s.fence.RankLeft(local)
}

// Freeze stops the server from answering and from releasing barriers. The
// supervisor calls it when the job is ended from elsewhere: a rank that goes on
// after MPI_Abort elsewhere must not be led to a happy end (pmi-wire.md 6.3).
func (s *Server) Freeze() {
	s.frozen.Store(true)
	s.fence.Close()
}

// AbortExitCode returns the exit status that stands for the code of an abort: its low
// byte, but never 0 for a code that is not (pmi-wire.md 6.3).
func AbortExitCode(code int) int {
	if code != 0 && code&255 == 0 {
		return 1
	}
	return code & 255
}

// abortJob ends all talk, and reports the first rank that wants it.
func (s *Server) abortJob(rank, code int, message string) {
	s.mu.Lock()
	first := !s.aborted
	s.aborted = true
	s.mu.Unlock()
	s.Freeze()
	s.reportAborting(rank)
	if first && s.Abort != nil {
		s.Abort(rank, AbortExitCode(code), AbortText(code, message))
	}
}

// AbortText adds to the message of an abort the code that it gave, if nobody would guess it
// from the exit status.
func AbortText(code int, message string) string {
	switch {
	case code == 0 || code&255 != 0:
		return message
	case message != "":
		message = ": " + message
	}
	return fmt.Sprintf("the program said %d%s", code, message)
}

func (s *Server) reportAborting(rank int) {
	if s.AbortRequested != nil {
		s.AbortRequested(rank)
	}
}

// SetDeadRanks says which ranks of the group ended by failing while the others go on, in the order in which they ended.
// MPICH asks for them as PMI_dead_processes, in MPIX_Comm_get_failed and MPIX_Comm_failure_ack. It takes numbers with
// commas, no ranges, and its failure_ack goes by their order, as Hydra's does. If not all fit into a line of PMI-1, the
// first are reported.
func (s *Server) SetDeadRanks(ranks []int) {
	var text []byte
	for _, rank := range ranks {
		longer := strconv.AppendInt(text, int64(rank), 10)
		if len(longer) > maxDeadRanksBytes {
			break
		}
		text = append(longer, ',')
	}
	dead := strings.TrimSuffix(string(text), ",")
	s.deadRanks.Store(&dead)
}

// maxDeadRanksBytes is how long the list of dead ranks may be, in bytes. libpmi reads lines of at most 1,024 bytes, of which 64
// are enough for the rest of the answer.
const maxDeadRanksBytes = pmi1.MaxValue - 64

// DeadRanks returns the ranks that SetDead was given, with commas: "3,1". It is empty if no rank has failed.
func (s *Server) DeadRanks() string {
	if dead := s.deadRanks.Load(); dead != nil {
		return *dead
	}
	return ""
}

// Barrier returns the number of the barrier, from 1, in which a rank of this node waits;
// 0: in none.
func (s *Server) Barrier(rank int) int {
	local, ours := s.local[rank]
	if !ours {
		return 0
	}
	return s.fence.WaitsIn(local)
}

// connectRank makes room for a new connection of a rank.
func (s *Server) connectRank(local, rank int) error {
	s.mu.Lock()
	from := s.states[local]
	if from.isServed() || from == Lost {
		s.mu.Unlock()
		return fmt.Errorf("pmi: rank %d: %w", rank, ErrAlreadyConnected)
	}
	s.states[local] = Connected
	s.mu.Unlock()
	s.fence.RankReturned(local)
	s.reportState(rank, from, Connected)
	return nil
}

// disconnectRank notes the end of a connection.
func (s *Server) disconnectRank(c *rankSession, err error) {
	end := Closed
	if err != nil {
		end = Lost
	}
	c.setState(end)
	c.Keys.DiscardUnsent()
	s.nodeAttrs.ForgetWaits(c.pmi2)
	s.fence.RankLeft(c.localIndex)
}

func (s *Server) reportState(rank int, from, to State) {
	if s.StateChanged != nil {
		s.StateChanged(rank, from, to)
	}
}

func (s *Server) reportNote(rank int, text string) {
	if s.Note != nil {
		s.Note(rank, text)
	}
}
