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

// An Info describes a group of ranks to the server on one node. New keeps it, so it must not be changed
// afterwards.
type Info struct {
	Name     string // the group and its key-value space: [A-Za-z0-9_.-], at most 40 bytes
	Size     int    // ranks of the group, on all nodes
	Universe int    // processes that would fit; 0 if unknown
	Ranks    []int  // the ranks on this node, in local order
	Mapping  string // value of PMI_process_mapping; if empty, that key is not found

	// Parent is the group that spawned this one; empty if none did. The ranks of a spawned group find
	// Preputs in their key-value space from the start; of equal keys the later pair is used. They also
	// need PMI_SPAWNED=1 in their environment.
	Parent  string
	Preputs []spawn.Pair

	// AppNum returns the index of a rank's app context on the command line, from 0. If nil, all ranks
	// belong to the first one.
	AppNum func(rank int) int
}

// A Server serves PMI to the ranks of one group on one node. Its fields must be set before the first call of
// Serve. Fields that are functions may be nil. They are called by the goroutines that serve ranks, without
// locks held, and should return soon.
type Server struct {
	// Trace receives each message in the notation of package transcript, without the rank: "< " and a
	// line from the rank, "> " and a line to it. "<; " and ">; " precede the body of a PMI-2 message.
	Trace func(rank int, line string)

	// Abort is called once, for the first rank that asks to end the job. code is the exit status of
	// the job, 0 to 255; message may be empty. The server is frozen from then on.
	Abort func(rank, code int, message string)

	// AbortRequested is called for every rank that asks to end the job.
	AbortRequested func(rank int)

	// StateChanged is called at each change of a rank's state.
	StateChanged func(rank int, oldState, newState State)

	// BarrierEntered is called each time a rank enters a barrier.
	BarrierEntered func(rank int)

	// Broken is called once, when a barrier can never complete. err is a *fence.StuckError, or the
	// reason why the fence failed. The server releases no barrier afterwards.
	Broken func(err error)

	// Note receives remarks for a log, on oddities that do no harm.
	Note func(rank int, text string)

	// Names is the table of published names. If nil, the server refuses the name service.
	Names Names

	// Spawner starts the processes that ranks ask for. If nil, the server refuses to spawn.
	Spawner spawn.Spawner

	// Hosts returns the names of the group's nodes, and for each rank the index of its node in nodes.
	// It answers get_ranks2hosts, which only Intel MPI 2018 and older sends. If nil, that request is
	// refused. Hosts may block.
	Hosts func(ctx context.Context) (nodes []string, nodeOfRank []int, err error)

	info      Info
	local     map[int]int // index in info.Ranks, by rank
	mapping   []byte      // info.Mapping
	store     *kvs.Store
	nodeAttrs pmi2.NodeAttrs
	fence     fence.Local            // the fence of the whole group
	deadRanks atomic.Pointer[string] // the argument of SetDeadRanks as text; nil before the first call
	frozen    atomic.Bool            // reply to nothing, release no rank

	mu      sync.Mutex // guards the fields below
	states  []State    // by local index
	aborted bool
}

// New returns a server for the ranks of a group on one node. otherNodes exchanges data with the other nodes
// of the group in fences. It is nil if there are no other nodes.
func New(info Info, otherNodes fence.Exchanger) *Server {
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
	s.fence.Members, s.fence.Ranks, s.fence.OtherNodes = fence.WholeGroup(info.Name), info.Ranks, otherNodes
	s.fence.Decode, s.fence.Broken = s.decodeFence, s.reportBroken
	return s
}

// decodeFence decodes the data of a completed fence. The decoded pairs become visible to ranks when the caller
// calls publish.
func (s *Server) decodeFence(all [][]byte) (publish func(), err error) {
	next, err := s.store.NextSnapshot(all)
	return func() { s.store.SetSnapshot(next) }, err
}

func (s *Server) reportBroken(err error) {
	if s.Broken != nil {
		s.Broken(err)
	}
}

// Serve serves one rank until its connection ends. The caller closes conn. The result is:
//
//   - nil: the rank finalized, aborted, or never sent init
//   - ErrUnfinalized: the connection ended between init and finalize
//   - a *ProtocolError: the rank sent something that no client sends. The rank then counts as
//     crashed (pmi-wire.md 6.2 and 6.4).
//   - ErrAlreadyConnected: the rank is connected already, or its connection was lost
//   - the error of ctx: ctx ended. Serve then also closes conn, if it is an io.Closer.
//
// If the result is nil, Serve may be called again for the rank.
//
// The rank's last messages may still be in the stream after its process has ended. Wait for Serve
// before judging the exit status; otherwise an abort looks like a crash.
func (s *Server) Serve(ctx context.Context, rank int, conn io.ReadWriter) error {
	return s.serve(ctx, rank, conn, identifiedConn{id: rank})
}

// An identifiedConn is a connection whose rank is known.
type identifiedConn struct {
	input     messageReader // bytes already read from it
	id        int           // the rank's own number or PMI_ID, which it names in fullinit
	connected func()        // called when the connection is accepted as the rank's; may be nil
}

func (s *Server) serve(ctx context.Context, rank int, conn io.ReadWriter, a identifiedConn) error {
	local, ours := s.local[rank]
	if !ours {
		return fmt.Errorf("pmi: rank %d does not run on this host", rank)
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
	rankCtx, cancel := context.WithCancel(ctx)
	c := s.newSession(rankCtx, local, conn, a)
	err := c.run(conn)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	cancel()
	c.pending.Wait()
	s.disconnectRank(c, err)
	return err
}

// State returns the PMI state of a rank. For a rank on another node it is Absent.
func (s *Server) State(rank int) State {
	local, ours := s.local[rank]
	if !ours {
		return Absent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[local]
}

// Exited records that the process of a local rank has ended. A child process may keep the rank's connection open, but
// barriers do not wait until that connection closes (pmi-wire.md 6.1).
func (s *Server) Exited(rank int) {
	local, ours := s.local[rank]
	if !ours {
		return
	}
	s.fence.RankLeft(local)
}

// Freeze makes the server stop all replies and keep ranks in their barriers, so that no rank can finish successfully
// while the job ends (pmi-wire.md 6.3). The server freezes itself when a rank aborts the job. If the job ends for any
// other reason, the supervisor calls Freeze.
func (s *Server) Freeze() {
	s.frozen.Store(true)
	s.fence.Close()
}

// AbortExitCode returns the exit status for an abort, which is the low byte of code. If that byte is
// 0 but code is not, the status is 1 (pmi-wire.md 6.3).
func AbortExitCode(code int) int {
	if code != 0 && code&255 == 0 {
		return 1
	}
	return code & 255
}

// abortJob stops all replies to ranks, and calls Abort for the first rank that aborts the job.
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

// AbortText returns the message of an abort. If the exit status cannot express the code that the program has given, the
// message includes the code.
func AbortText(code int, message string) string {
	switch {
	case code == 0 || code&255 != 0:
		return message
	case message != "":
		message = " and the message " + message
	}
	return fmt.Sprintf("the program aborted with code %d%s", code, message)
}

func (s *Server) reportAborting(rank int) {
	if s.AbortRequested != nil {
		s.AbortRequested(rank)
	}
}

// SetDeadRanks sets the list of failed ranks in a group whose other ranks continue. MPICH reads the list under
// the key PMI_dead_processes. ranks must be in the order in which the ranks ended, because
// MPIX_Comm_failure_ack depends on it. If a line of PMI-1 cannot contain all ranks, only the first ones are
// listed.
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

// maxDeadRanksBytes is the maximum size of the list of dead ranks, in bytes. libpmi reads lines of at most
// 1,024 bytes, of which 64 are enough for the rest of the reply.
const maxDeadRanksBytes = pmi1.MaxValue - 64

// DeadRanks returns the ranks that SetDeadRanks has set, separated by commas, such as "3,1". It is empty if no rank has
// failed.
func (s *Server) DeadRanks() string {
	if dead := s.deadRanks.Load(); dead != nil {
		return *dead
	}
	return ""
}

// Barrier returns the number, counted from 1, of the barrier in which a local rank waits. It returns 0 if the
// rank waits in no barrier or is not on this node.
func (s *Server) Barrier(rank int) int {
	local, ours := s.local[rank]
	if !ours {
		return 0
	}
	return s.fence.WaitsIn(local)
}

// connectRank records that a rank is connected. It returns an error if the rank is already connected or its
// connection was lost before.
func (s *Server) connectRank(local, rank int) error {
	s.mu.Lock()
	from := s.states[local]
	if from.isServed() || from == Lost {
		s.mu.Unlock()
		return fmt.Errorf("pmi: rank %d %w", rank, ErrAlreadyConnected)
	}
	s.states[local] = Connected
	s.mu.Unlock()
	s.fence.RankReturned(local)
	s.reportState(rank, from, Connected)
	return nil
}

// disconnectRank records the end of a connection. It drops keys that the rank has put and that no fence has
// distributed.
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

func (s *Server) reportState(rank int, oldState, newState State) {
	if s.StateChanged != nil {
		s.StateChanged(rank, oldState, newState)
	}
}

func (s *Server) reportNote(rank int, text string) {
	if s.Note != nil {
		s.Note(rank, text)
	}
}
