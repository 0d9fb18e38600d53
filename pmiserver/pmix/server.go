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
	maxGreeting  = 5 * time.Second // until a handshake is complete
	moreWaiting  = 64              // connections without a handshake, beside one for each rank
	maxOfRank    = 16              // connections
	maxOfServer  = 64              // connections of ranks, beside maxOfRank for each rank
	maxMeetings  = 1 << 10         // sets that meet at the same time
	maxOfSets    = 1 << 16         // sets that have ever met
	maxInARow    = 3               // messages of a client that cannot be read, one after the other
	maxCommitted = 16 << 20        // bytes committed by one rank
	maxKept      = 1 << 30         // bytes of a group
	maxWaiting   = 1 << 16         // Gets of one rank that wait

	maxFromElsewhere = 1 << 16 // Gets of ranks of other nodes that wait for one
)

// A Group is what a server is told of a group of ranks. Its functions are called from the
// goroutines of clients, without locks held.
type Group struct {
	Name      string // by which fences know it
	Namespace string // by which its ranks do; it has 64 random bits (PMIX-19)
	Size      int    // ranks, on all nodes
	Ranks     []int  // those of this node, ascending

	Parent string // the namespace of the group that has spawned it by PMIx; empty: none has
	Asker  int    // the rank of that one which has asked

	// Spawner starts what its ranks ask for; nil: nothing is started.
	Spawner spawn.Spawner

	// Job returns what its ranks are told of it and of where they are. It is asked for when the
	// first of them wants to know, and again if that fails; it may take its time.
	Job func(ctx context.Context) (jobinfo.Job, error)

	Events
}

// Events are told what the ranks of a group do. All of them may be nil.
type Events struct {
	Abort   func(rank, code int, message string) (told bool) // the rank asks for the end of the job, which hears of it; code is an exit status
	Changed func(rank int, to State)
	Fencing func(rank int)            // it enters a fence of its whole group that waits without an end
	Lost    func(rank int, why error) // a connection of it ended between init and finalize
	Junk    func(rank int, why error) // it said what no client says
	Note    func(rank int, text string)
	Leaves  func(rank int, files []string) (refused []string)         // to be removed if they are still there behind it (PMIX-53)
	Print   func(ctx context.Context, rank int, text message.LogText) // help text of the library (PMIX-48); it may wait
	Trace   func(rank int, line string)
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

	// Owner asks the kernel which user has the other end of a connection; ErrNobody: nobody has
	// it any more. With any other error the namespace alone decides (PMIX-18).
	Owner func(conn net.Conn) (uid uint32, err error)

	Links

	// Lenient lets the other members of a fence out, with an error, when one of them has left for good.
	Lenient bool

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
	gatherings
	seeking search
}

// Links are what a server has of the rest of the job, all of it by mpiexec.
type Links struct {
	// Elsewhere knows the groups of the job that have no ranks here; nil: there are none.
	Elsewhere Elsewhere

	// Others takes fences to other nodes; nil: there are none.
	Others fence.Exchanger

	// Far fetches what ranks of other nodes have committed; nil: there are none.
	Far Fetcher

	// Notifier takes events to other nodes; nil: they reach this one alone.
	Notifier Notifier

	// Names is the table of published names; nil: none are served.
	Names Names
}

// A lifetime is how long a server works: until the job ends nobody need wait for others, and until Close
// there is anything at all.
type lifetime struct {
	ctx     context.Context
	end     context.CancelFunc
	waiting context.Context // of who waits for others; it ends before ctx (PMIX-64)
	hurry   context.CancelFunc
	ending  atomic.Bool
	tasks   sync.WaitGroup // connections, and what they have under way: fences at other nodes, questions
}

// An admission is who comes to the port, until it is a client or shown out.
type admission struct {
	listener  net.Listener
	lastIndex atomic.Uint32
	refused   atomic.Int64
	unasked   sync.Once // notes that the kernel tells no owners
	narrow    sync.Once // notes a client of 32 bits
	newcomers lounge    // of our user; guarded by the server's mu
	strangers lounge    // of others: they keep none of ours out; guarded by the server's mu
}

// Gatherings are where ranks meet. They are guarded by the server's mu.
type gatherings struct {
	meetings map[meetingKey]*meeting
	late     map[meetingKey]int // fences that others have given up before anybody here came to them
	meeting  int                // of meetings, those in which somebody waits
}

// ErrNobody says that no process has the other end of a connection.
var ErrNobody = errors.New("nobody has the other end")

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
	s.begin()
	go s.accept()
	return scheme + "://" + s.listener.Addr().String(), nil
}

// begin makes the server ready for clients, wherever they come from.
func (s *Server) begin() {
	s.ctx, s.end = context.WithCancel(context.Background())
	s.waiting, s.hurry = context.WithCancel(s.ctx)
	s.meetings, s.late = make(map[meetingKey]*meeting), make(map[meetingKey]int)
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

// task runs one that Close waits for; there is none after that.
func (s *Server) task(run func()) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(run)
	}
	return !s.closed
}

// Refused returns how many connections were not let in.
func (s *Server) Refused() int { return int(s.refused.Load()) }

// Freeze lets nobody wait for others any more: the job is at its end, and what a rank still says
// is answered so that it can leave (PMIX-64).
func (s *Server) Freeze() {
	s.ending.Store(true)
	s.hurry()
	s.mu.Lock()
	all, groups := slices.Collect(maps.Values(s.meetings)), slices.Clone(s.groups)
	s.mu.Unlock()
	for _, m := range all {
		m.local.Close()
	}
	for _, g := range groups {
		endAll(g.takeWaiting(true, nil), message.Failed)
	}
}

// freeze is Freeze for one group, a rank of which has ended the job: the others need not wait for
// the news to come back, and other groups go on until then.
func (s *Server) freeze(g *group) {
	g.ending.Store(true)
	for _, m := range s.meetingsOf(func(of set) bool { return of.names(g.Name) }) {
		m.local.Close()
	}
	endAll(g.takeWaiting(true, nil), message.Failed)
}

// Add takes in a group whose ranks are about to start.
func (s *Server) Add(g Group) {
	added := newGroup(s, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, added)
	s.ranks += len(g.Ranks)
}

// Remove forgets a group of which no rank is left, here or, of another node's, anywhere, and where it
// has met.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	over := s.forgetMeetings(name)
	s.seeking.passed(name)
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
	endAll(gone.takeWaiting(true, nil), message.NotFound)
	for _, g := range others {
		endAll(g.takeWaiting(false, gone), message.Failed)
	}
}

// Exited says that the process of a rank has ended: nobody need wait for it any more (PMIX-32,
// PMIX-34).
func (s *Server) Exited(group string, rank int) {
	g := s.named(group)
	if g == nil {
		return
	}
	g.exited(rank)
	for _, m := range s.meetingsOf(func(of set) bool { return of.has(group, rank) }) {
		m.leave(g, rank)
	}
}

func (s *Server) named(group string) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		if g.Name == group {
			return g
		}
	}
	return nil
}

// find finds the group of a namespace. How long that takes does not depend on how much of it
// somebody has guessed (PMIX-19).
func (s *Server) find(namespace string) *group {
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

// accept lets in who comes, until the port is closed. It never waits for a client.
func (s *Server) accept() {
	for number := 0; ; number++ {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			n := newcomer{conn, number}
			if !s.task(func() { s.serve(n) }) {
				conn.Close()
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptors, for now
			s.note(fmt.Sprintf("pmix: a connection was not taken: %v", err))
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

// serve finds out who a newcomer is, and serves it if it is a rank.
func (s *Server) serve(n newcomer) {
	stop := context.AfterFunc(s.ctx, func() { n.conn.Close() })
	defer stop()
	defer n.conn.Close()
	c := s.greet(n)
	if c == nil {
		s.refused.Add(1)
		return
	}
	err := c.run()
	c.out.close()
	s.dismiss(c)
	c.group.left(c, err)
}

// greet hears the handshake of a newcomer, and answers it. Nothing comes back of one that may not
// come in.
func (s *Server) greet(n newcomer) *client {
	conn, ours := n.conn, s.ours(n.conn)
	defer s.admit(n, ours)()
	conn.SetDeadline(time.Now().Add(maxGreeting))
	h, err := readHandshake(conn)
	if errors.Is(err, message.ErrNarrow) && ours {
		s.narrow.Do(func() { s.note("pmix: " + err.Error()) })
	}
	if err != nil {
		return nil
	}
	c, status := s.receive(conn, ours, h)
	answer := message.AppendWelcome(nil, status, s.lastIndex.Add(1))
	if _, err := conn.Write(answer); err != nil || status != message.Success {
		if c != nil {
			s.dismiss(c)
		}
		return nil
	}
	conn.SetDeadline(time.Time{})
	return c
}

// receive decides whether a handshake is that of a rank, which then has one client more.
func (s *Server) receive(conn net.Conn, ours bool, h message.Handshake) (*client, message.Status) {
	if !ours {
		return nil, message.BadIdentity
	}
	g := s.find(h.Namespace)
	if g == nil {
		return nil, message.BadIdentity
	}
	r := g.rank(int64(h.Rank))
	if r == nil {
		return nil, message.BadIdentity
	}
	if status, why := h.Refusal(s.UID); status != message.Success {
		g.note(r.number, fmt.Sprintf("PMIx client %q %s", h.Version, why))
		return nil, status
	}
	c := &client{server: s, group: g, rank: r, in: bufio.NewReaderSize(conn, readAtOnce), major: h.Major()}
	c.out.conn, c.out.raw, c.out.rank = conn, rawOf(conn), &r.queued
	if !s.count(c) {
		g.note(r.number, "PMIx: too many connections")
		return nil, message.TooMuch
	}
	return c, message.Success
}

// ours reports whether the process at the other end is of our user, as far as the kernel tells.
func (s *Server) ours(conn net.Conn) bool {
	uid, err := s.Owner(conn)
	if err == nil || errors.Is(err, ErrNobody) {
		return err == nil && uid == s.UID
	}
	s.unasked.Do(func() { s.note(fmt.Sprintf("pmix: connections are known by their namespace alone: %v", err)) })
	return true
}

// A newcomer is a connection that has not said who it is.
type newcomer struct {
	conn   net.Conn
	number int // in the order in which they came, of which their goroutines know nothing
}

// A lounge is where connections are until they have said who they are, in the order in which they
// came (PMIX-20).
type lounge []newcomer

// admit counts a newcomer until it is forgotten, and shows the oldest of its like out if there are
// too many, which may be itself. Who is not of our user is told from who is before a word is heard, so
// that no stranger takes the place of a rank.
func (s *Server) admit(n newcomer, ours bool) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, most := &s.newcomers, moreWaiting+s.ranks
	if !ours {
		all, most = &s.strangers, moreWaiting
	}
	at, _ := slices.BinarySearchFunc(*all, n, func(a, b newcomer) int { return cmp.Compare(a.number, b.number) })
	*all = slices.Insert(*all, at, n)
	if len(*all) > most {
		(*all)[0].conn.Close()
		*all = slices.Delete(*all, 0, 1)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*all = slices.DeleteFunc(*all, func(other newcomer) bool { return other == n })
	}
}

// count takes a client in, unless its rank or the node has too many.
func (s *Server) count(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= maxOfServer+maxOfRank*s.ranks || !c.group.arrive(c) {
		return false
	}
	s.clients++
	return true
}

// dismiss takes it out again.
func (s *Server) dismiss(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	c.group.depart(c)
}

func (s *Server) note(text string) {
	if s.Note != nil {
		s.Note(text)
	}
}
