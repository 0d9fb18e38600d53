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

// These are limits for connections and stored data (rule PMIX-20, pmix-wire.md 11).
const (
	handshakeTimeout     = 5 * time.Second // from accept until the handshake is complete
	extraPending         = 64              // connections without a handshake, beside one for each local rank
	maxConnsPerRank      = 16              // connections
	extraConns           = 64              // connections of all ranks, beside maxConnsPerRank for each rank
	maxActiveCollectives = 1 << 10         // sets with a fence under way
	maxCollectives       = 1 << 16         // sets for which there is a collective
	maxBadMessages       = 3               // consecutive messages of a client that cannot be decoded
	maxRankBytes         = 16 << 20        // bytes committed by one rank
	maxGroupBytes        = 1 << 30         // bytes committed by the local ranks of one group, or fetched for it
	maxWaitingGets       = 1 << 16         // Gets of one rank without a reply

	maxRemoteGets = 1 << 16 // Gets of other nodes that wait for one local rank
)

// A Group describes a group of ranks to a Server. The goroutines that serve clients call its functions without holding
// locks.
type Group struct {
	Name      string // by which package fence identifies it
	Namespace string // by which its ranks identify it; it has 64 random bits (PMIX-19)
	Size      int    // number of ranks, on all nodes
	Ranks     []int  // ranks of this node, ascending

	Parent     string // namespace of the group that spawned it by PMIx; empty if none did
	ParentRank int    // rank of the parent group that called spawn

	// Spawner starts the programs that its ranks spawn. If it is nil, spawning is not supported.
	Spawner spawn.Spawner

	// Job returns the job info of the group. It is called when a rank first needs it, and again if that
	// fails. It may block.
	Job func(ctx context.Context) (jobinfo.Job, error)

	Events
}

// Events contains the functions that a Server calls to report what the ranks of a group do. Each of them may be nil.
type Events struct {
	Abort        func(rank, code int, message string) (reported bool) // aborts the job; code is an exit status; false: the rank had ended
	StateChanged func(rank int, state State)
	FenceEntered func(rank int)              // the rank enters a fence of its whole group without a timeout
	Lost         func(rank int, cause error) // its last connection ended between init and finalize
	Junk         func(rank int, cause error) // a client sent messages that cannot be decoded, or does not read
	Note         func(rank int, text string)
	Warn         func(rank int, text string)                               // why a call of the rank fails, in words that help its user
	Cleanup      func(rank int, files []string) (refused []string)         // files to remove after the rank (PMIX-53)
	Print        func(ctx context.Context, rank int, text message.LogText) // help text of the library (PMIX-48); may block; nil: not supported
	Trace        func(rank int, line string)
}

// A State is the phase of a rank's use of PMIx.
type State int

// These are the states, in chronological order (pmix-wire.md 10).
const (
	Absent    State = iota // has never connected
	Connected              // has not requested its job info
	Initialized
	Finalized
)

// A Server serves the PMIx clients of one node. Its fields must be set before the first call of AddGroup.
type Server struct {
	// UID is the user ID of the ranks.
	UID uint32

	// SocketOwner returns the user ID of the process at the other end of a connection, as the kernel knows
	// it. It returns ErrNoOwner if there is no such process. After any other error the namespace alone
	// authenticates the client (rule PMIX-18).
	SocketOwner func(conn net.Conn) (uid uint32, err error)

	Links

	// GiveUpStuck ends a fence with an error for its other members when one of them has left for good.
	GiveUpStuck bool

	// Broken, if not nil, is called when a fence can never complete.
	Broken func(err error)

	// Note, if not nil, is called with oddities that belong to no rank.
	Note func(text string)

	lifetime
	admission

	mu      sync.Mutex // guards the fields below, collectiveState, and the pending connections of admission
	closed  bool
	groups  []*group
	ranks   int // local ranks of all groups
	clients int // connections that have authenticated
	collectiveState
	search    groupSearch
	announced atomic.Bool // other jobs can see that ours has not ended
	ports     portOwners  // guarded by mu
}

// Links are the connections of a server to the rest of the job. All messages that they send go through
// mpiexec.
type Links struct {
	// GroupFinder finds the groups of the job that have no ranks on this node. It is nil if there are none.
	GroupFinder GroupFinder

	// OtherNodes exchanges fence data with other nodes. It is nil if there are none.
	OtherNodes fence.Exchanger

	// Fetcher fetches data that ranks of other nodes have committed. It is nil if there are none.
	Fetcher Fetcher

	// Notifier sends events to other nodes. If it is nil, events reach only this node.
	Notifier Notifier

	// Names is the table of published names. If it is nil, publishing is not supported.
	Names Names

	// SharesNames says that other jobs find the names. Then processes can connect to processes of other jobs.
	SharesNames bool
}

// A lifetime contains two contexts. One ends when Freeze is called, and the other when Close is called. After Freeze no
// client waits for other processes. After Close the server does nothing.
type lifetime struct {
	ctx         context.Context
	end         context.CancelFunc
	waitCtx     context.Context // for requests that wait for other processes; Freeze cancels it (PMIX-64)
	cancelWaits context.CancelFunc
	ending      atomic.Bool
	tasks       sync.WaitGroup // connections, and their fences and requests under way
}

// An admission contains the state that is needed to authenticate connections to the port.
type admission struct {
	listener         net.Listener
	lastIndex        atomic.Uint32
	refusedConns     atomic.Int64
	ownerUnknownOnce sync.Once    // for the note that the kernel does not report the owners of sockets
	narrowOnce       sync.Once    // for the note about a 32-bit client
	pendingOwn       pendingConns // from our user; guarded by Server.mu
	pendingOther     pendingConns // from other users, counted separately so that they cannot displace ranks; guarded by Server.mu
}

// A collectiveState contains the collectives of a server. Server.mu guards it.
type collectiveState struct {
	collectives       map[collectiveKey]*collective
	givenUp           map[collectiveKey]int // fences that other nodes gave up before a local rank entered: number of the next fence
	activeCollectives int                   // collectives in which a participant waits
}

// ErrNoOwner is returned by SocketOwner when no process has the other end of a connection open.
var ErrNoOwner = errors.New("no process has the other end of the connection open")

// Listen opens the server's port, on the loopback interface only, and accepts clients until Close. It returns the URI
// by which clients find the port (rule PMIX-15).
func (s *Server) Listen() (uri string, err error) {
	var tcp net.ListenConfig
	tcp.SetMultipathTCP(false) // Go would try it first; the loopback has one path
	scheme := "tcp4"
	s.listener, err = tcp.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		var second error
		scheme = "tcp6"
		if s.listener, second = tcp.Listen(context.Background(), "tcp6", "[::1]:0"); second != nil {
			return "", fmt.Errorf("cannot open a port for PMIx on the loopback interface: %w", err)
		}
	}
	s.makeReady()
	go s.acceptLoop()
	return scheme + "://" + s.listener.Addr().String(), nil
}

// makeReady creates the contexts and maps that the server needs before it can serve clients.
func (s *Server) makeReady() {
	s.ctx, s.end = context.WithCancel(context.Background())
	s.waitCtx, s.cancelWaits = context.WithCancel(s.ctx)
	s.collectives, s.givenUp = make(map[collectiveKey]*collective), make(map[collectiveKey]int)
}

// Close closes the port and all connections, and waits until all goroutines have ended. The server calls none of its
// function fields afterwards.
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

// runTask runs a function in a goroutine. Close waits for the goroutine. After Close, runTask returns false and runs
// nothing.
func (s *Server) runTask(run func()) (started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(run)
	}
	return !s.closed
}

// RefusedConns returns how many connections the server has refused because their clients did not authenticate.
func (s *Server) RefusedConns() int { return int(s.refusedConns.Load()) }

// Freeze makes all waits for other processes end with an error, because the job is ending. Later requests
// are still answered, so that ranks can exit (rule PMIX-64).
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

// freezeGroup ends the waits of the ranks of one group. It is called when a rank of the group has aborted the
// job. The other ranks then need not wait until mpiexec ends the job.
func (s *Server) freezeGroup(g *group) {
	g.ending.Store(true)
	for _, m := range s.collectivesOf(func(of procSet) bool { return of.hasGroup(g.Name) }) {
		m.local.Close()
	}
	finishAll(g.takeWaitingGets(true, nil), message.Failed)
}

// AddGroup adds a group whose ranks are about to start.
func (s *Server) AddGroup(g Group) {
	added := newGroup(s, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, added)
	s.ranks += len(g.Ranks)
}

// RemoveGroup removes a group and its collectives. It must be called when no rank of the group is left on
// this node. For a group without local ranks, it must be called when the whole group has ended.
func (s *Server) RemoveGroup(name string) {
	s.mu.Lock()
	removed := s.removeCollectives(name)
	s.search.noteEnded(name)
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.Name == name })
	if i < 0 {
		s.mu.Unlock()
		return
	}
	defer func() {
		for _, m := range removed {
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

// RankExited records that the process of a rank has ended. Other ranks no longer wait for its data or for
// its part in a fence (rules PMIX-32, PMIX-34).
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

// groupByNamespace returns the group with the given namespace, or nil. Comparing namespaces takes constant time, so
// that a client cannot guess a namespace byte by byte (rule PMIX-19).
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

// acceptLoop accepts connections until the port is closed. It never waits for a client.
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
		default: // such as too many open files, which may pass
			s.reportNote(fmt.Sprintf("pmix: cannot accept a connection: %v", err))
			s.pause(time.Millisecond)
		}
	}
}

// pause waits for d, or until the server is closed.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// serveConn authenticates a pending connection, and serves it if it belongs to a rank.
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

// authenticate reads the handshake of a pending connection and replies. It returns nil if the connection
// is refused.
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

// checkHandshake decides whether a handshake comes from a rank. If it does, checkHandshake adds a client to the rank.
func (s *Server) checkHandshake(conn net.Conn, sameUser bool, h message.Handshake) (*client, message.Status) {
	if !sameUser {
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
	if status, reason := h.Refusal(s.UID); status != message.Success {
		g.reportNote(r.number, fmt.Sprintf("PMIx client %q was refused: %s", h.Version, reason))
		return nil, status
	}
	c := &client{server: s, group: g, rank: r, in: bufio.NewReaderSize(conn, readBufferSize), major: h.Major()}
	c.out.conn, c.out.raw, c.out.rank = conn, rawOf(conn), &r.queuedBytes
	if !s.addClient(c) {
		g.reportNote(r.number, "PMIx: the rank has too many connections")
		return nil, message.NoMemory
	}
	return c, message.Success
}

// isOwnUser reports whether the process at the other end of conn belongs to the same user as this server. It
// also returns true if the kernel does not know the owner.
func (s *Server) isOwnUser(conn net.Conn) bool {
	uid, err := s.SocketOwner(conn)
	if err == nil || errors.Is(err, ErrNoOwner) {
		return err == nil && uid == s.UID
	}
	s.ownerUnknownOnce.Do(func() {
		s.reportNote(fmt.Sprintf("pmix: cannot find out which user opened a connection, so only its namespace is checked: %v", err))
	})
	return true
}

// A pendingConn is a connection whose client has not been authenticated yet.
type pendingConn struct {
	conn   net.Conn
	number int // order of acceptance, because goroutines start in any order
}

// pendingConns are the connections whose clients have not been authenticated yet, in the order in which they
// were accepted (rule PMIX-20).
type pendingConns []pendingConn

// addPending adds a pending connection, and closes the oldest one if there are too many. The function remove
// removes the added connection. Connections of other users are counted separately, so that they cannot displace a
// rank.
func (s *Server) addPending(n pendingConn, sameUser bool) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending, limit := &s.pendingOwn, extraPending+s.ranks
	if !sameUser {
		pending, limit = &s.pendingOther, extraPending
	}
	at, _ := slices.BinarySearchFunc(*pending, n, func(a, b pendingConn) int { return cmp.Compare(a.number, b.number) })
	*pending = slices.Insert(*pending, at, n)
	if len(*pending) > limit {
		(*pending)[0].conn.Close()
		*pending = slices.Delete(*pending, 0, 1)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*pending = slices.DeleteFunc(*pending, func(other pendingConn) bool { return other == n })
	}
}

// addClient adds a client. It returns false if the client's rank, or the node, already has too many clients.
func (s *Server) addClient(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= extraConns+maxConnsPerRank*s.ranks || !c.group.addClient(c) {
		return false
	}
	s.clients++
	return true
}

// removeClient removes a client from its rank and from the count of all clients.
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
