package reach

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
	"remshell/reach/callback"
	"remshell/sshx"
)

// A ByStarter reaches the hosts of a batch system's job by its own starter, a call for each; which
// there are, and what they are told, is package batch's. Its fields must not change after the
// first Dial.
type ByStarter struct {
	Self    Self
	System  *batch.System                  // it has a Starter
	Program string                         // its path
	Args    []string                       // -launcher-args, already split
	Env     []string                       // ours; the starter does not get all of it
	Help    func() string                  // what it tells of its options; called when the first host is dialled
	Find    func(Host) (batch.Call, error) // a host in the words of the batch system; or why it is not the job's
	Timeout time.Duration                  // for a login, which the starter does not tell of; 0: 10 s
	Shell   time.Duration                  // for each step from the login on; 0: 60 s
	Retries int                            // attempts where the batch system is busy; 0: 4
	Pacer   *sshx.Pacer                    // says how many may be in the set-up phase at once
	Log     zerolog.Logger
	Calls   bool           // the helpers call us, if they can
	Ports   callback.Ports // that may be opened for helpers that call; the zero value: any
	Warn    func(string)   // tells of strangers, and of helpers that cannot call
}

var _ Way = (*ByStarter)(nil)

// Dial starts a shell on each host of a set.
func (s *ByStarter) Dial(ctx context.Context, hosts []Host) <-chan Result {
	if !s.Calls {
		return Each(ctx, hosts, s.dial)
	}
	c := s.expect(hosts)
	return Each(ctx, hosts, func(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
		defer c.leave()
		return s.dialTo(ctx, host, c)
	})
}

// Route is the command that would be run.
func (s *ByStarter) Route(host Host) (string, error) {
	argv, err := s.argv(host)
	return "by " + strings.Join(argv, " "), err
}

// call is the call for a host by itself.
func (s *ByStarter) call(host Host) (batch.Call, error) {
	call, err := s.Find(host)
	if err == nil {
		call.Program, call.Help, call.More = s.Program, s.Help(), s.Args
	}
	return call, err
}

func (s *ByStarter) argv(host Host) ([]string, error) {
	call, err := s.call(host)
	if err != nil {
		return nil, err
	}
	return s.System.Starter.Argv(call), nil
}

// dial starts the program for a host whose helper speaks over its streams.
func (s *ByStarter) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	return s.dialTo(ctx, host, new(callers))
}

// dialTo starts the program for a host, whose helper calls if it is one of the callers.
func (s *ByStarter) dialTo(ctx context.Context, host Host, c *callers) (io.ReadWriteCloser, error) {
	call, err := s.call(host)
	if err != nil {
		return nil, err
	}
	argv := s.System.Starter.Argv(call)
	r := remoteShell{self: s.Self, env: s.System.Starter.Environ(s.Env), times: programTimes(s.Timeout, s.Shell), retries: s.Retries,
		pacer: s.Pacer, log: s.Log, missing: "use -launcher ssh", stop: s.end, words: lastWordsOf{s.verdict, s.why}, back: c.take(call.Host)}
	conn, err := r.dial(ctx, host, argv)
	r.back.excuse()
	if err == nil {
		return conn, nil // not a nil *Conn in an interface
	}
	return nil, s.explained(err)
}

// explained adds what the starter alone may know: why nothing has come in time.
func (s *ByStarter) explained(err error) error {
	var e *Error
	if s.System.Starter.Silent == nil || !errors.As(err, &e) || e.Kind != KindReach || e.Step != "connect" {
		return err
	}
	if why, remedy := s.System.Starter.Silent(s.Help()); why != "" {
		e.Why, e.Remedy = why, remedy
	}
	return err
}

// end sees to the end of the program. Once the helper runs, it is left to it how to end its ranks:
// the starter, if it were asked, would have them killed. Killed itself, it takes no part in that
// any more.
func (s *ByStarter) end(p *localCommand, spoken bool) {
	if !spoken && s.System.Starter.Asked {
		p.strike(syscall.SIGTERM)
	}
	if p.within(s.System.Starter.Grace) {
		return
	}
	p.strike(syscall.SIGKILL)
	p.within(killGrace)
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
	return s.System.Starter.Program + ": " + cmp.Or(s.System.Starter.Line(stderr), howItEnded(status))
}

// NotInJob is why a host is not reached by a batch system's starter (M7).
func NotInJob(host, system, number string) error {
	return &Error{Host: host, Step: "config", Kind: KindConfig, Why: fmt.Sprintf("not part of %s job %s", system, number),
		Remedy: "add it to the allocation, or use -launcher ssh --allow-outside"}
}

// callers are the helpers of a set, each started by a call of its own, that are to call us (RM-36):
//
//	mpiexec                                    helper
//	   | <---------------- run WHERE            by the starter's streams, as ever
//	   | invitation ----------------------->
//	   | <== TLS ==========================>    or
//	   | <---------------- stay WHY             it cannot call: what follows is its own stream
//
// The zero value is nobody.
type callers struct {
	way        *ByStarter
	desk       *callback.Desk
	invitation string
	strangers  strangers
	left       atomic.Int32 // hosts that nothing has come of yet
	over       chan struct{}
	unable     atomic.Bool // one could not call, and that was told

	mu       sync.Mutex               // guards arrivals
	arrivals map[string]chan net.Conn // of whom nobody has asked for yet, by the batch system's name; there is room for one in each
}

// expect opens a port for the helpers of hosts. If none can be opened, nobody calls.
func (s *ByStarter) expect(hosts []Host) *callers {
	c := &callers{way: s, arrivals: make(map[string]chan net.Conn), over: make(chan struct{}), strangers: strangers{warn: s.Warn}}
	c.left.Store(int32(len(hosts)))
	var names []string
	for _, host := range hosts {
		if call, err := s.call(host); err == nil && !slices.Contains(names, call.Host) { // a second name of a host has its streams
			names = append(names, call.Host)
		}
	}
	if len(names) == 0 {
		return c
	}
	desk, err := callback.Open(names, s.Ports, c.strangers.tell)
	if err != nil {
		s.Warn(fmt.Sprintf("warning: helpers cannot call this host (%v): their streams go through %s", err, s.System.Starter.Program))
		return c
	}
	for _, name := range names {
		c.arrivals[name] = make(chan net.Conn, 1)
	}
	invitation := desk.Invitation(ownAddresses())
	invitation.Streams = true
	c.desk, c.invitation = desk, invitation.Text()
	s.Log.Info().Msgf("listening on port %d until %s have called", desk.Port(), strings.Join(names, ","))
	go c.deal(maps.Clone(c.arrivals))
	return c
}

// deal hands each helper that has called to whom it is wanted by.
func (c *callers) deal(to map[string]chan net.Conn) {
	for {
		select {
		case a := <-c.desk.Arrivals():
			to[a.Host] <- a.Stream
		case <-c.over:
			return
		}
	}
}

// leave says that something has come of one host. With the last the port is closed.
func (c *callers) leave() {
	if c.left.Add(-1) == 0 && c.desk != nil {
		c.desk.Close()
		close(c.over)
	}
}

// take is how the helper of a host calls; nil: it does not. Nobody else has it then.
func (c *callers) take(host string) *callBack {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrival, is := c.arrivals[host]
	if !is {
		return nil
	}
	delete(c.arrivals, host)
	return &callBack{host, arrival, c}
}

// A callBack is how the helper of one host calls us, if it can. Nil: it does not.
type callBack struct {
	host    string // as the batch system spells it
	arrival <-chan net.Conn
	from    *callers
}

// stays tells that the helper cannot call: of the first of them, and in the log of all.
func (b *callBack) stays(why string) {
	s := b.from.way
	text := fmt.Sprintf("%s cannot connect to this host on port %d (%s): its streams go through %s", b.host, b.from.desk.Port(), why, s.System.Starter.Program)
	if b.from.unable.CompareAndSwap(false, true) {
		s.Warn("warning: " + text + "; --port-range LOW:HIGH names ports that are open, -launcher " + s.System.StreamsWord() + " opens none")
		return
	}
	s.Log.Info().Msg(text)
}

// sends tells that the program goes by the starter's streams: nothing that could call is on the host before (RM-36).
func (b *callBack) sends(size int64) {
	s := b.from.way
	s.Log.Info().Msgf("%s has no copy of the program: %d MB go through %s, once, since a shell cannot call; a path that all hosts share saves that",
		b.host, (size+1<<20-1)>>20, s.System.Starter.Program)
}

// excuse says that the helper has called, or does not. One that comes too late finds nobody.
func (b *callBack) excuse() {
	if b == nil {
		return
	}
	b.from.desk.Excuse(b.host)
	select {
	case late := <-b.arrival:
		late.Close()
	default:
	}
}

// link is the connection of the helper that has called, with the program that has started it.
func (b *callBack) link(conn net.Conn, p *localCommand) link {
	line := &common{p: p}
	line.users.Store(1)
	return &stepLink{Conn: conn, line: line, program: b.from.way.System.Starter.Program, why: func(string) string { return "" }}
}
