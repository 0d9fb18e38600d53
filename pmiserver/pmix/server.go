package pmix

import (
	"bufio"
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
)

// Bounds of who may come in (PMIX-20, pmix-wire.md 11).
const (
	handshakeTimeout     = 5 * time.Second // until a handshake is complete
	extraPending         = 64              // connections without a handshake, beside one for each rank
	maxConnsPerRank      = 16              // connections
	extraConns           = 64              // connections of ranks, beside maxOfRank for each rank
	maxActiveCollectives = 1 << 10         // sets that meet at the same time
	maxCollectives       = 1 << 16         // sets that have ever met
	maxBadMessages       = 3               // messages of a client that cannot be read, one after the other
	maxRankBytes         = 16 << 20        // bytes committed by one rank
	maxGroupBytes        = 1 << 30         // bytes of a group
	maxWaitingGets       = 1 << 16         // Gets of one rank that wait

	maxRemoteGets = 1 << 16 // Gets of ranks of other nodes that wait for one
)

// A Group is what a server is told of a group of ranks. Its functions are called from the
// goroutines of clients, without locks held.
type Group struct {
	Name      string // by which fences know it
	Namespace string // by which its ranks do; it has 64 random bits (PMIX-19)
	Size      int    // ranks, on all nodes
	Ranks     []int  // those of this node, ascending

	Parent     string // the namespace of the group that has spawned it by PMIx; empty: none has
	ParentRank int    // the rank of that one which has asked

	// Spawner starts what its ranks ask for; nil: nothing is started.
	Spawner spawn.Spawner

	// Job returns what its ranks are told of it and of where they are. It is asked for when the
	// first of them wants to know, and again if that fails; it may take its time.
	Job func(ctx context.Context) (jobinfo.Job, error)

	Events
}

// Events are told what the ranks of a group do. All of them may be nil.
type Events struct {
	Abort        func(rank, code int, message string) (told bool) // the rank asks for the end of the job, which hears of it; code is an exit status
	StateChanged func(rank int, to State)
	FenceEntered func(rank int)            // it enters a fence of its whole group that waits without an end
	Lost         func(rank int, why error) // a connection of it ended between init and finalize
	Junk         func(rank int, why error) // it said what no client says
	Note         func(rank int, text string)
	Cleanup      func(rank int, files []string) (refused []string)         // to be removed if they are still there behind it (PMIX-53)
	Print        func(ctx context.Context, rank int, text message.LogText) // help text of the library (PMIX-48); it may wait
	Trace        func(rank int, line string)
}

// A State is how far a rank has come.
type State int

// The states, in their order (pmix-wire.md 10).
const (
	Absent    State = iota // it never connected
	Connected              // and has not asked for its job
	Initialized
	Finalized
)

// A Server answers the clients of one node. Its fields are set before the first Add.
type Server struct {
	// UID is that of our ranks.
	UID uint32

	// SocketOwner asks the kernel which user has the other end of a connection; ErrNobody: nobody has
	// it any more. With any other error the namespace alone decides (PMIX-18).
	SocketOwner func(conn net.Conn) (uid uint32, err error)

	Links

	// GiveUpStuck lets the other members of a fence out, with an error, when one of them has left for good.
	GiveUpStuck bool

	// Broken is told that a fence can never complete.
	Broken func(err error)

	// Note is told of oddities that belong to no rank.
	Note func(text string)

	lifetime
	admission

	mu      sync.Mutex // guards what follows, and of admission and gatherings what they say
	closed  bool
	groups  []*group
	ranks   int // of all groups
	clients int // connections that have been admitted
	collectiveState
	search groupSearch
}

// Links are what a server has of the rest of the job, all of it by mpiexec.
type Links struct {
	// GroupFinder knows the groups of the job that have no ranks here; nil: there are none.
	GroupFinder GroupFinder

	// OtherNodes takes fences to other nodes; nil: there are none.
	OtherNodes fence.Exchanger

	// Fetcher fetches what ranks of other nodes have committed; nil: there are none.
	Fetcher Fetcher

	// Notifier takes events to other nodes; nil: they reach this one alone.
	Notifier Notifier

	// Names is the table of published names; nil: none are served.
	Names Names
}

// A lifetime is how long a server works: until the job ends nobody need wait for others, and until Close
// there is anything at all.
type lifetime struct {
	ctx         context.Context
	end         context.CancelFunc
	waitCtx     context.Context // of who waits for others; it ends before ctx (PMIX-64)
	cancelWaits context.CancelFunc
	ending      atomic.Bool
	tasks       sync.WaitGroup // connections, and what they have under way: fences at other nodes, questions
}

// An admission is who comes to the port, until it is a client or shown out.
type admission struct {
	listener         net.Listener
	lastIndex        atomic.Uint32
	refusedConns     atomic.Int64
	ownerUnknownOnce sync.Once    // notes that the kernel tells no owners
	narrowOnce       sync.Once    // notes a client of 32 bits
	pendingOwn       pendingConns // of our user; guarded by the server's mu
	pendingOther     pendingConns // of others: they keep none of ours out; guarded by the server's mu
}

// Gatherings are where ranks meet. They are guarded by the server's mu.
type collectiveState struct {
	collectives       map[collectiveKey]*collective
	givenUp           map[collectiveKey]int // fences that others have given up before anybody here came to them
	activeCollectives int                   // of meetings, those in which somebody waits
}

// ErrNoOwner says that no process has the other end of a connection.
var ErrNoOwner = errors.New("nobody has the other end")

// Listen opens the server's port, on the loopback alone, and lets clients come in until Close. It
// returns how they find it (PMIX-15).
func (s *Server) Listen() (uri string, err error) {
	var tcp net.ListenConfig
	tcp.SetMultipathTCP(false) // Go would try it first; the loopback has one path
	scheme := "tcp4"
	s.listener, err = tcp.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		var second error
		scheme = "tcp6"
		if s.listener, second = tcp.Listen(context.Background(), "tcp6", "[::1]:0"); second != nil {
			return "", fmt.Errorf("no port for PMIx on the loopback: %w", err)
		}
	}
	s.makeReady()
	go s.acceptLoop()
	return scheme + "://" + s.listener.Addr().String(), nil
}

// makeReady makes the server ready for clients, wherever they come from.
func (s *Server) makeReady() {
	s.ctx, s.end = context.WithCancel(context.Background())
	s.waitCtx, s.cancelWaits = context.WithCancel(s.ctx)
	s.collectives, s.givenUp = make(map[collectiveKey]*collective), make(map[collectiveKey]int)
}

// Close ends all connections, lets nobody come in any more, and waits until nothing is under way:
// no function that the server was given is called after it.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	if s.listener != nil {
		s.listener.Close()
	}
	s.tasks.Wait()
}

// runTask runs one that Close waits for; there is none after that.
func (s *Server) runTask(run func()) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(run)
	}
	return !s.closed
}

// RefusedConns returns how many connections were not let in.
func (s *Server) RefusedConns() int { return int(s.refusedConns.Load()) }

// Freeze lets nobody wait for others any more: the job is at its end, and what a rank still says
// is answered so that it can leave (PMIX-64).
func (s *Server) Freeze() {
	s.ending.Store(true)
	s.cancelWaits()
	s.mu.Lock()
	all, groups := slices.Collect(maps.Values(s.collectives)), slices.Clone(s.groups)
	s.mu.Unlock()
	for _, m := range all {
		m.local.Close()
	}
	for _, g := range groups {
		finishAll(g.takeWaitingGets(true, nil), message.Failed)
	}
}

// freezeGroup is Freeze for one group, a rank of which has ended the job: the others need not wait for
// the news to come back, and other groups go on until then.
func (s *Server) freezeGroup(g *group) {
	g.ending.Store(true)
	for _, m := range s.collectivesOf(func(of procSet) bool { return of.hasGroup(g.Name) }) {
		m.local.Close()
	}
	finishAll(g.takeWaitingGets(true, nil), message.Failed)
}

// AddGroup takes in a group whose ranks are about to start.
func (s *Server) AddGroup(g Group) {
	added := newGroup(s, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, added)
	s.ranks += len(g.Ranks)
}

// RemoveGroup forgets a group of which no rank is left, here or, of another node's, anywhere, and where it
// has met.
func (s *Server) RemoveGroup(name string) {
	s.mu.Lock()
	over := s.removeCollectives(name)
	s.search.noteEnded(name)
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.Name == name })
	if i < 0 {
		s.mu.Unlock()
		return
	}
	defer func() {
		for _, m := range over {
			m.stopTimers()
		}
	}()
	gone := s.groups[i]
	s.ranks -= len(gone.Ranks)
	s.groups = slices.Delete(s.groups, i, i+1)
	others := slices.Clone(s.groups)
	s.mu.Unlock()
	gone.ending.Store(true)
	finishAll(gone.takeWaitingGets(true, nil), message.NotFound)
	for _, g := range others {
		finishAll(g.takeWaitingGets(false, gone), message.Failed)
	}
}

// RankExited says that the process of a rank has ended: nobody need wait for it any more (PMIX-32,
// PMIX-34).
func (s *Server) RankExited(group string, rank int) {
	g := s.groupByName(group)
	if g == nil {
		return
	}
	g.rankExited(rank)
	for _, m := range s.collectivesOf(func(of procSet) bool { return of.hasRank(group, rank) }) {
		m.rankLeft(g, rank)
	}
}

func (s *Server) groupByName(group string) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		if g.Name == group {
			return g
		}
	}
	return nil
}

// groupByNamespace finds the group of a namespace. How long that takes does not depend on how much of it
// somebody has guessed (PMIX-19).
func (s *Server) groupByNamespace(namespace string) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *group
	for _, g := range s.groups {
		if subtle.ConstantTimeCompare([]byte(g.Namespace), []byte(namespace)) == 1 {
			found = g
		}
	}
	return found
}

// acceptLoop lets in who comes, until the port is closed. It never waits for a client.
func (s *Server) acceptLoop() {
	for number := 0; ; number++ {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			n := pendingConn{conn, number}
			if !s.runTask(func() { s.serveConn(n) }) {
				conn.Close()
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptors, for now
			s.reportNote(fmt.Sprintf("pmix: a connection was not taken: %v", err))
			s.pause(time.Millisecond)
		}
	}
}

// pause waits, but not for longer than the server lives.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// serveConn finds out who a newcomer is, and serves it if it is a rank.
func (s *Server) serveConn(n pendingConn) {
	stop := context.AfterFunc(s.ctx, func() { n.conn.Close() })
	defer stop()
	defer n.conn.Close()
	c := s.authenticate(n)
	if c == nil {
		s.refusedConns.Add(1)
		return
	}
	err := c.run()
	c.out.close()
	s.removeClient(c)
	c.group.reportConnEnd(c, err)
}

// authenticate hears the handshake of a newcomer, and answers it. Nothing comes back of one that may not
// come in.
func (s *Server) authenticate(n pendingConn) *client {
	conn, ours := n.conn, s.isOwnUser(n.conn)
	defer s.addPending(n, ours)()
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	h, err := readHandshake(conn)
	if errors.Is(err, message.Err32Bit) && ours {
		s.narrowOnce.Do(func() { s.reportNote("pmix: " + err.Error()) })
	}
	if err != nil {
		return nil
	}
	c, status := s.checkHandshake(conn, ours, h)
	answer := message.AppendWelcome(nil, status, s.lastIndex.Add(1))
	if _, err := conn.Write(answer); err != nil || status != message.Success {
		if c != nil {
			s.removeClient(c)
		}
		return nil
	}
	conn.SetDeadline(time.Time{})
	return c
}

// checkHandshake decides whether a handshake is that of a rank, which then has one client more.
func (s *Server) checkHandshake(conn net.Conn, ours bool, h message.Handshake) (*client, message.Status) {
	if !ours {
		return nil, message.InvalidCredential
	}
	g := s.groupByNamespace(h.Namespace)
	if g == nil {
		return nil, message.InvalidCredential
	}
	r := g.findRank(int64(h.Rank))
	if r == nil {
		return nil, message.InvalidCredential
	}
	if status, why := h.Refusal(s.UID); status != message.Success {
		g.reportNote(r.number, fmt.Sprintf("PMIx client %q %s", h.Version, why))
		return nil, status
	}
	c := &client{server: s, group: g, rank: r, in: bufio.NewReaderSize(conn, readBufferSize), major: h.Major()}
	c.out.conn, c.out.raw, c.out.rank = conn, rawOf(conn), &r.queuedBytes
	if !s.addClient(c) {
		g.reportNote(r.number, "PMIx: too many connections")
		return nil, message.NoMemory
	}
	return c, message.Success
}

// isOwnUser reports whether the process at the other end is of our user, as far as the kernel tells.
func (s *Server) isOwnUser(conn net.Conn) bool {
	uid, err := s.SocketOwner(conn)
	if err == nil || errors.Is(err, ErrNoOwner) {
		return err == nil && uid == s.UID
	}
	s.ownerUnknownOnce.Do(func() { s.reportNote(fmt.Sprintf("pmix: connections are known by their namespace alone: %v", err)) })
	return true
}

// A pendingConn is a connection that has not said who it is.
type pendingConn struct {
	conn   net.Conn
	number int // in the order in which they came, of which their goroutines know nothing
}

// A pendingConns is where connections are until they have said who they are, in the order in which they
// came (PMIX-20).
type pendingConns []pendingConn

// addPending counts a newcomer until it is forgotten, and shows the oldest of its like out if there are
// too many, which may be itself. Who is not of our user is told from who is before a word is heard, so
// that no stranger takes the place of a rank.
func (s *Server) addPending(n pendingConn, ours bool) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, most := &s.pendingOwn, extraPending+s.ranks
	if !ours {
		all, most = &s.pendingOther, extraPending
	}
	at, _ := slices.BinarySearchFunc(*all, n, func(a, b pendingConn) int { return cmp.Compare(a.number, b.number) })
	*all = slices.Insert(*all, at, n)
	if len(*all) > most {
		(*all)[0].conn.Close()
		*all = slices.Delete(*all, 0, 1)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*all = slices.DeleteFunc(*all, func(other pendingConn) bool { return other == n })
	}
}

// addClient takes a client in, unless its rank or the node has too many.
func (s *Server) addClient(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= extraConns+maxConnsPerRank*s.ranks || !c.group.addClient(c) {
		return false
	}
	s.clients++
	return true
}

// removeClient takes it out again.
func (s *Server) removeClient(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	c.group.removeClient(c)
}

func (s *Server) reportNote(text string) {
	if s.Note != nil {
		s.Note(text)
	}
}
