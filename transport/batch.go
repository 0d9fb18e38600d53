package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/batch"
	"remshell/sshx"
	"remshell/transport/dialback"
)

// A ByStarter reaches the hosts of a batch system's job by its own starter, a call for each; which
// there are, and what they are told, is package batch's. Its fields must not change after the
// first Dial.
type ByStarter struct {
	Self        HelperBinary
	System      *batch.System                  // it has a Starter
	Program     string                         // its path
	Args        []string                       // -launcher-args, already split
	Env         []string                       // ours; the starter does not get all of it
	StarterHelp func() string                  // what it tells of its options; called when the first host is dialled
	StarterCall func(Host) (batch.Call, error) // a host in the words of the batch system; or why it is not the job's
	Timeout     time.Duration                  // for a login, which the starter does not tell of; 0: 10 s
	Shell       time.Duration                  // for each step from the login on; 0: 60 s
	Retries     int                            // attempts where the batch system is busy; 0: 4
	Pacer       *sshx.Pacer                    // says how many may be in the set-up phase at once
	Log         zerolog.Logger
	DialBack    bool           // the helpers call us, if they can
	Ports       dialback.Ports // that may be opened for helpers that call; the zero value: any
	Warn        func(string)   // tells of strangers, and of helpers that cannot call
}

var _ Transport = (*ByStarter)(nil)

// Dial starts a shell on each host of a set.
func (s *ByStarter) Dial(ctx context.Context, hosts []Host) <-chan Result {
	if !s.DialBack {
		return DialEach(ctx, hosts, s.dial)
	}
	c := s.listenForDialBacks(hosts)
	return DialEach(ctx, hosts, func(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
		defer c.hostDone()
		return s.dialTo(ctx, host, c)
	})
}

// Route is the command that would be run.
func (s *ByStarter) Route(host Host) (string, error) {
	argv, err := s.argv(host)
	return "by " + strings.Join(argv, " "), err
}

// starterCall is the call for a host by itself.
func (s *ByStarter) starterCall(host Host) (batch.Call, error) {
	call, err := s.StarterCall(host)
	if err == nil {
		call.Program, call.Help, call.More = s.Program, s.StarterHelp(), s.Args
	}
	return call, err
}

func (s *ByStarter) argv(host Host) ([]string, error) {
	call, err := s.starterCall(host)
	if err != nil {
		return nil, err
	}
	return s.System.Starter.Argv(call), nil
}

// dial starts the program for a host whose helper speaks over its streams.
func (s *ByStarter) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	return s.dialTo(ctx, host, new(dialBacks))
}

// dialTo starts the program for a host, whose helper calls if it is one of the callers.
func (s *ByStarter) dialTo(ctx context.Context, host Host, c *dialBacks) (io.ReadWriteCloser, error) {
	call, err := s.starterCall(host)
	if err != nil {
		return nil, err
	}
	argv := s.System.Starter.Argv(call)
	r := shellProgram{self: s.Self, env: s.System.Starter.Environ(s.Env), times: programTimeouts(s.Timeout, s.Shell), retries: s.Retries,
		pacer: s.Pacer, log: s.Log, missingHint: "use -launcher ssh", stop: s.endProgram, interpret: stderrReader{s.verdict, s.why}, dialBack: c.dialBackOf(call.Host)}
	conn, err := r.dial(ctx, host, argv)
	r.dialBack.stopExpecting()
	if err == nil {
		return conn, nil // not a nil *Conn in an interface
	}
	return nil, s.withStarterHelp(err)
}

// withStarterHelp adds what the starter alone may know: why nothing has come in time.
func (s *ByStarter) withStarterHelp(err error) error {
	var e *Error
	if s.System.Starter.Silent == nil || !errors.As(err, &e) || e.Kind != KindNoRoute || e.Step != "connect" {
		return err
	}
	if why, remedy := s.System.Starter.Silent(s.StarterHelp()); why != "" {
		e.Why, e.Remedy = why, remedy
	}
	return err
}

// endProgram sees to the end of the program. Once the helper runs, it is left to it how to end its ranks:
// the starter, if it were asked, would have them killed. Killed itself, it takes no part in that
// any more.
func (s *ByStarter) endProgram(p *localCommand, spoken bool) {
	if !spoken && s.System.Starter.Asked {
		p.signalGroup(syscall.SIGTERM)
	}
	if p.waitFor(s.System.Starter.Grace) {
		return
	}
	p.signalGroup(syscall.SIGKILL)
	p.waitFor(killGrace)
}

// verdict says what it means that the program has ended before the helper spoke.
func (s *ByStarter) verdict(stderr string, exit int) Verdict {
	v := s.System.Starter.Verdict(stderr, exit)
	kind := KindOther
	if v.Busy {
		kind = KindBusy
	}
	return Verdict{Kind: kind, Step: s.System.Starter.Program, Why: v.Why, Hint: v.Remedy}
}

// why says that after that.
func (s *ByStarter) why(status error, stderr string) string {
	return s.System.Starter.Program + ": " + cmp.Or(s.System.Starter.Line(stderr), waitErrorText(status))
}

// NotInJob is why a host is not reached by a batch system's starter (M7).
func NotInJob(host, system, number string) error {
	return &Error{Host: host, Step: "config", Kind: KindConfig, Why: fmt.Sprintf("not part of %s job %s", system, number),
		Remedy: "add it to the allocation, or use -launcher ssh --allow-outside"}
}

// dialBacks are the helpers of a set, each started by a call of its own, that are to call us (RM-36):
//
//	mpiexec                                    helper
//	   | <---------------- run WHERE            by the starter's streams, as ever
//	   | invitation ----------------------->
//	   | <== TLS ==========================>    or
//	   | <---------------- stay WHY             it cannot call: what follows is its own stream
//
// The zero value is nobody.
type dialBacks struct {
	starter    *ByStarter
	listener   *dialback.Listener
	joinToken  string
	pending    refusals
	remaining  atomic.Int32 // hosts that nothing has come of yet
	closed     chan struct{}
	toldUnable atomic.Bool // one could not call, and that was told

	mu      sync.Mutex               // guards arrivals
	streams map[string]chan net.Conn // of whom nobody has asked for yet, by the batch system's name; there is room for one in each
}

// listenForDialBacks opens a port for the helpers of hosts. If none can be opened, nobody calls.
func (s *ByStarter) listenForDialBacks(hosts []Host) *dialBacks {
	c := &dialBacks{starter: s, streams: make(map[string]chan net.Conn), closed: make(chan struct{}), pending: refusals{warn: s.Warn}}
	c.remaining.Store(int32(len(hosts)))
	var names []string
	for _, host := range hosts {
		if call, err := s.starterCall(host); err == nil && !slices.Contains(names, call.Host) { // a second name of a host has its streams
			names = append(names, call.Host)
		}
	}
	if len(names) == 0 {
		return c
	}
	desk, err := dialback.Open(names, s.Ports, c.pending.report)
	if err != nil {
		s.Warn(fmt.Sprintf("warning: helpers cannot call this host (%v): their streams go through %s", err, s.System.Starter.Program))
		return c
	}
	for _, name := range names {
		c.streams[name] = make(chan net.Conn, 1)
	}
	invitation := desk.JoinToken(ownAddresses())
	invitation.Streams = true
	c.listener, c.joinToken = desk, invitation.Text()
	s.Log.Info().Msgf("listening on port %d until %s have called", desk.Port(), strings.Join(names, ","))
	go c.deliverStreams(maps.Clone(c.streams))
	return c
}

// deliverStreams hands each helper that has called to whom it is wanted by.
func (c *dialBacks) deliverStreams(to map[string]chan net.Conn) {
	for {
		select {
		case a := <-c.listener.Connections():
			to[a.Host] <- a.Stream
		case <-c.closed:
			return
		}
	}
}

// hostDone says that something has come of one host. With the last the port is closed.
func (c *dialBacks) hostDone() {
	if c.remaining.Add(-1) == 0 && c.listener != nil {
		c.listener.Close()
		close(c.closed)
	}
}

// dialBackOf is how the helper of a host calls; nil: it does not. Nobody else has it then.
func (c *dialBacks) dialBackOf(host string) *dialBack {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrival, is := c.streams[host]
	if !is {
		return nil
	}
	delete(c.streams, host)
	return &dialBack{host, arrival, c}
}

// A dialBack is how the helper of one host calls us, if it can. Nil: it does not.
type dialBack struct {
	host   string // as the batch system spells it
	stream <-chan net.Conn
	owner  *dialBacks
}

// cannotDialBack tells that the helper cannot call: of the first of them, and in the log of all.
func (b *dialBack) cannotDialBack(why string) {
	s := b.owner.starter
	text := fmt.Sprintf("%s cannot connect to this host on port %d (%s): its streams go through %s", b.host, b.owner.listener.Port(), why, s.System.Starter.Program)
	if b.owner.toldUnable.CompareAndSwap(false, true) {
		s.Warn("warning: " + text + "; --port-range LOW:HIGH names ports that are open, -launcher " + s.System.StreamsWord() + " opens none")
		return
	}
	s.Log.Info().Msg(text)
}

// sendsProgram tells that the program goes by the starter's streams: nothing that could call is on the host before (RM-36).
func (b *dialBack) sendsProgram(size int64) {
	s := b.owner.starter
	s.Log.Info().Msgf("%s has no copy of the program: %d MB go through %s, once, since a shell cannot call; a path that all hosts share saves that",
		b.host, (size+1<<20-1)>>20, s.System.Starter.Program)
}

// stopExpecting says that the helper has called, or does not. One that comes too late finds nobody.
func (b *dialBack) stopExpecting() {
	if b == nil {
		return
	}
	b.owner.listener.StopExpecting(b.host)
	select {
	case late := <-b.stream:
		late.Close()
	default:
	}
}

// newLink is the connection of the helper that has called, with the program that has started it.
func (b *dialBack) newLink(conn net.Conn, p *localCommand) helperLink {
	line := &sharedStarter{program: p}
	line.users.Store(1)
	return &stepLink{Conn: conn, starter: line, program: b.owner.starter.System.Starter.Program, why: func(string) string { return "" }}
}
