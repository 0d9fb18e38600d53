package reach

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"remshell/batch"
	"remshell/deadline"
	"remshell/reach/callback"
	"remshell/sshx"
)

/*
A OneStep reaches the hosts of a batch system's job by one call of its starter, whose input goes to all of them, and
whose outputs come back in one: so that carries no streams, and the helpers call us (package callback).

	mpiexec                          srun                     /bin/sh on each host
	   | script ---------------------> | ----------------------> |
	   | <---------------------------- | <-- HOST run WHERE      |   or HOST fail ...: that host is reached by itself
	   | when all have said so:        |                         |
	   | invitation -----------------> | ----------------------> helper
	   | <== TLS, one connection for each host =================> |   or HOST fail call WHY

Nothing but the script is sent before all shells have said what they run, since a shell may read ahead. The step ends
when its input does, which is when the last of the streams is closed; and when it is ended, so do all helpers.
*/
type OneStep struct {
	Each *ByStarter // the way to a host by itself
}

var _ Way = (*OneStep)(nil)

// How long the hosts of a step may take together, at least: first until each shell has said what it runs, then until each helper
// has called.
const (
	leastStep = time.Minute
	eachHost  = 100 * time.Millisecond // and for each host more
)

// maxStrangers is how many strangers are told of, for each port.
const maxStrangers = 8

// Route is that of a host by itself, but for how many are called together.
func (o *OneStep) Route(host Host) (string, error) {
	call, err := o.Each.call(host)
	if err != nil {
		return "", err
	}
	return "by one step, " + strings.Join(o.Each.System.Starter.Step.Argv([]batch.Call{call}), " "), nil
}

// A mate is one host of a step.
type mate struct {
	at   int // of the set
	host Host
	call batch.Call
}

// Dial reaches the hosts of a set.
func (o *OneStep) Dial(ctx context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	var dialing sync.WaitGroup
	alone := func(m mate) {
		dialing.Go(func() {
			stream, err := recovered(ctx, m.host, o.Each.dial)
			results <- Result{m.at, stream, err}
		})
	}
	steps, single := o.deal(hosts, results)
	for _, m := range single {
		alone(m)
	}
	for _, members := range steps {
		dialing.Go(func() { newStep(o, members, results, alone).dial(ctx) })
	}
	go func() {
		dialing.Wait()
		close(results)
	}()
	return results
}

// deal makes steps of a set. Hosts of one part of the job go together; one that would be alone, and one where the
// program is elsewhere or has to be sent, is reached by itself. What is no host of the job has its Result.
func (o *OneStep) deal(hosts []Host, results chan<- Result) (steps [][]mate, single []mate) {
	parts := make(map[int]int) // a part of the job -> its last step
	for at, host := range hosts {
		call, err := o.Each.call(host)
		m := mate{at, host, call}
		switch i, known := parts[call.Part]; {
		case err != nil:
			results <- Result{At: at, Err: err}
		case host.Helper != "" || o.Each.Self.ship == "always":
			single = append(single, m)
		case !known || len(steps[i]) == batch.MaxStep:
			parts[call.Part] = len(steps)
			steps = append(steps, []mate{m})
		default:
			steps[i] = append(steps[i], m)
		}
	}
	kept := steps[:0]
	for _, members := range steps {
		if len(members) == 1 {
			single = append(single, members...)
			continue
		}
		kept = append(kept, members)
	}
	return kept, single
}

// A step is one call of the starter, while it is being set up.
type step struct {
	*OneStep
	self    Self
	times   stepTimes
	results chan<- Result
	alone   func(mate)

	pending map[string]mate // who has no Result and is not reached by itself, by the batch system's name
	ready   map[string]bool // shells that have told what they run
	invited bool
	reached atomic.Int32 // hosts
}

func newStep(o *OneStep, members []mate, results chan<- Result, alone func(mate)) *step {
	how := o.Each.System.Starter.Step
	s := &step{OneStep: o, self: o.Each.Self.InStep(how.Host, how.Near), times: o.times(len(members)), results: results, alone: alone,
		pending: make(map[string]mate), ready: make(map[string]bool)}
	for _, m := range members {
		if _, twice := s.pending[m.call.Host]; twice { // two names of one host
			alone(m)
			continue
		}
		s.pending[m.call.Host] = m
	}
	return s
}

// times are how long the shells of so many hosts may take, and then their helpers.
func (o *OneStep) times(hosts int) stepTimes {
	t, more := programTimes(o.Each.Timeout, o.Each.Shell), time.Duration(hosts)*eachHost
	t.shell, t.rest = max(t.shell, leastStep)+more, max(t.rest, leastStep)+more
	return t
}

// dial calls the starter until it has something better to do than to be busy.
func (s *step) dial(ctx context.Context) {
	defer func() {
		if why := recover(); why != nil {
			s.fail(func(mate) error { return Crashed(why) })
		}
	}()
	for tries := 1; ; tries++ {
		pass, err := s.Each.Pacer.Enter(ctx, sshx.UnknownServer)
		if err != nil {
			s.givenUp(err)
			return
		}
		busy := s.attempt(ctx)
		pass.Leave(map[bool]sshx.Outcome{true: sshx.Dropped, false: sshx.LoggedIn}[busy != nil], nil)
		if busy == nil {
			return
		}
		if tries >= cmp.Or(max(s.Each.Retries, 0), defaultRetries) {
			s.fail(func(m mate) error { return hostError(m, "connect", KindBusy, busy.Why, busy.Hint) })
			return
		}
		s.Each.Log.Debug().Str("said", busy.Why).Msg("batch system is busy, trying again")
		pause(ctx, sshx.Backoff(tries, rand.Float64()))
	}
}

func hostError(m mate, at string, kind Kind, why, remedy string) *Error {
	return &Error{Host: m.host.Name, Step: at, Kind: kind, Why: why, Remedy: remedy}
}

// fail ends all who are waited for.
func (s *step) fail(why func(mate) error) {
	for host, m := range s.pending {
		delete(s.pending, host)
		s.results <- Result{At: m.at, Err: why(m)}
	}
}

func (s *step) givenUp(err error) {
	s.fail(func(m mate) error {
		return hostError(m, "connect", KindCanceled, fmt.Sprintf("given up: %v", err), "").because(err)
	})
}

// attempt calls the starter once. When it returns there is a Result for each host, or one is made elsewhere, or
// the batch system is busy.
func (s *step) attempt(ctx context.Context) (busy *Verdict) {
	hosts := slices.Sorted(maps.Keys(s.pending))
	refused := strangers{warn: s.Each.Warn}
	desk, err := callback.Open(hosts, s.Each.Ports, refused.tell)
	if err == nil {
		defer desk.Close()
		var p *localCommand
		if p, err = s.start(hosts); err == nil {
			line := &common{p: p}
			line.users.Store(1)
			defer line.leave()
			return s.converse(ctx, desk, line)
		}
	}
	s.fail(func(m mate) error {
		return hostError(m, "start", KindOther, err.Error(), "use -launcher "+s.each()).because(err)
	})
	return nil
}

// each is the word of -launcher by which every host is reached by itself.
func (s *step) each() string { return s.Each.System.EachWord() }

// start runs the starter, and sends the script.
func (s *step) start(hosts []string) (*localCommand, error) {
	var calls []batch.Call
	for _, host := range hosts {
		calls = append(calls, s.pending[host].call)
	}
	argv := s.Each.System.Starter.Step.Argv(calls)
	s.Each.Log.Debug().Strs("argv", argv).Msg("starting")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.Each.System.Starter.Environ(s.Each.Env)
	p, err := startProcess(cmd, func(p *localCommand) { s.Each.end(p, s.reached.Load() > 0) }, endStragglers)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", argv[0], cause(err))
	}
	p.words = lastWordsOf{s.Each.verdict, s.Each.why}
	io.WriteString(p, s.self.script(newTag())) // if it has ended, it says why
	return p, nil
}

// converse hears shells and helpers until nobody is waited for.
func (s *step) converse(ctx context.Context, desk *callback.Desk, line *common) (busy *Verdict) {
	s.Each.Log.Info().Msgf("listening on port %d until %s have called", desk.Port(), strings.Join(slices.Sorted(maps.Keys(s.pending)), ","))
	said, enough := make(chan saidInStep), make(chan struct{})
	defer close(enough)
	go hear(line.p, said, enough)
	limit := deadline.New(ctx, s.times.shell, errLate, nil)
	defer func() { limit.Stop() }()
	for len(s.pending) > 0 {
		if !s.invited && len(s.ready) == len(s.pending) {
			s.invited = true
			limit.Stop()
			limit = deadline.New(ctx, s.times.rest, errLate, nil)
			io.WriteString(line.p, desk.Invitation(ownAddresses()).Text())
		}
		select {
		case a := <-desk.Arrivals():
			s.arrived(a, line)
		case l, open := <-said:
			if !open {
				return s.over(line.p)
			}
			s.take(l, desk)
		case <-limit.Context().Done():
			if cause := context.Cause(limit.Context()); cause != errLate {
				s.givenUp(cause)
			} else {
				s.late(desk)
			}
		}
	}
	return nil
}

// arrived makes a Result of a helper that has called.
func (s *step) arrived(a callback.Arrival, line *common) {
	m, waited := s.pending[a.Host]
	if !waited {
		a.Stream.Close()
		return
	}
	s.forget(a.Host)
	s.reached.Add(1)
	line.users.Add(1)
	conn := newConn(&stepLink{Conn: a.Stream, line: line, why: func(stderr string) string { return s.Each.System.Starter.Step.Line(stderr, a.Host) }, program: s.Each.System.Starter.Program})
	conn.build, conn.source = s.self.Build, "found"
	s.results <- Result{At: m.at, Stream: conn}
}

func (s *step) forget(host string) {
	delete(s.pending, host)
	delete(s.ready, host)
}

// take takes what a shell, or a helper that cannot call, has said.
func (s *step) take(l saidInStep, desk *callback.Desk) {
	m, waited := s.pending[l.host]
	switch why, unable := strings.CutPrefix(l.text, uncalled); {
	case !waited:
	case l.verb == "run":
		s.ready[l.host] = true
	case l.verb == "fail":
		s.forget(l.host)
		desk.Excuse(l.host)
		if !unable {
			s.Each.Log.Debug().Str("host", m.host.Name).Str("said", l.text).Msg("reaching it by itself")
			s.alone(m)
			return
		}
		s.results <- Result{At: m.at, Err: hostError(m, "helper", KindReach, fmt.Sprintf("cannot connect to this host on port %d (%s)", desk.Port(), why), "use -launcher "+s.each())}
	}
}

// late gives up who has kept us waiting: shells that say nothing, and if there are none, helpers that do not call.
func (s *step) late(desk *callback.Desk) {
	for host, m := range s.pending {
		if !s.invited && s.ready[host] {
			continue
		}
		e := hostError(m, "connect", KindReach, "cannot reach: no answer in "+seconds(s.times.shell), "")
		if s.invited {
			e = hostError(m, "helper", KindReach, fmt.Sprintf("it did not call this host on port %d within %s", desk.Port(), seconds(s.times.rest)), "use -launcher "+s.each())
		}
		s.forget(host)
		desk.Excuse(host)
		s.results <- Result{At: m.at, Err: s.Each.explained(e)}
	}
}

// over is the end of the starter before all have called.
func (s *step) over(p *localCommand) (busy *Verdict) {
	v := p.verdict(p.ended(endingTime).exit)
	if v.Kind == KindBusy && s.reached.Load() == 0 {
		clear(s.ready)
		s.invited = false
		return &v
	}
	s.fail(func(m mate) error {
		return hostError(m, v.Step, v.Kind, cmp.Or(s.Each.System.Starter.Step.Line(p.stderr(), m.call.Host), v.Why), v.Hint)
	})
	return nil
}

// strangers are those who were refused at a port.
type strangers struct {
	warn func(string)
	told atomic.Int32
}

// tell tells of one, but not of any number.
func (s *strangers) tell(from netip.Addr, why string) {
	switch n := s.told.Add(1); {
	case n <= maxStrangers:
		s.warn(fmt.Sprintf("warning: refused a connection from %s: %s", from, why))
	case n == maxStrangers+1:
		s.warn("warning: refused more connections, which are not told of")
	}
}

// A saidInStep is a line that a shell or helper of a step has said.
type saidInStep struct{ host, verb, text string }

// readSaid takes a line apart; what is none of ours is nothing.
func readSaid(line string) (l saidInStep, ours bool) {
	rest, ours := strings.CutPrefix(strings.TrimRight(line, "\r\n"), marker)
	l.host, rest, _ = strings.Cut(rest, " ")
	l.verb, l.text, _ = strings.Cut(rest, " ")
	return l, ours && l.host != "" && (l.verb == "run" || l.verb == "fail")
}

// uncalled begins the text of a helper that cannot call.
const uncalled = "call "

// SayUncalled is how the helper of a host says that it cannot call, and why, on the output of its step.
func SayUncalled(out io.Writer, host string, why error) {
	fmt.Fprintf(out, "%s%s fail %s%s\n", marker, host, uncalled, why)
}

// hear reads what comes back from the step until its end, so that it never waits for us; when there is enough of it
// nobody is told any more.
func hear(out io.Reader, said chan<- saidInStep, enough <-chan struct{}) {
	defer close(said)
	in := bufio.NewReaderSize(out, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if l, ours := readSaid(string(line)); ours && err == nil {
			select {
			case said <- l:
			case <-enough:
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// ownAddresses are those under which other machines may reach this one.
func ownAddresses() (found []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if ip := prefix.Addr(); err == nil && ip.IsGlobalUnicast() {
			found = append(found, ip)
		}
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	if len(found) == 0 {
		found = append(found, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return found
}

// A common is the process of a step, which ends with the last who uses it: its helpers do, when its input ends.
type common struct {
	p     *localCommand
	users atomic.Int32
}

func (c *common) leave() {
	if c.users.Add(-1) == 0 {
		c.p.Close()
	}
}

// A stepLink is the connection of a helper that has called, and the step that it is of, be it of one host.
type stepLink struct {
	net.Conn
	line    *common
	program string
	why     func(stderr string) string // what the starter says of the helper's end; empty: nothing yet
	once    sync.Once
}

// Close ends the connection at once: what was written is on its way.
func (l *stepLink) Close() error {
	l.once.Do(func() {
		if s, ok := l.Conn.(interface{ NetConn() net.Conn }); ok {
			s.NetConn().Close()
		}
		l.Conn.Close()
		l.line.leave()
	})
	return nil
}

func (l *stepLink) stderr() string           { return l.line.p.stderr() }
func (l *stepLink) verdict(exit int) Verdict { return l.line.p.verdict(exit) }
func (l *stepLink) localAddr() net.Addr      { return l.LocalAddr() }
func (l *stepLink) silence() time.Duration   { return 0 }

// lookPause is how often it is seen whether the starter has said something of a helper's end.
const lookPause = 10 * time.Millisecond

// ended waits for the end of the step, or for what the starter says of this helper's.
func (l *stepLink) ended(limit time.Duration) linkEnd {
	for waited := time.Duration(0); waited < limit; waited += lookPause {
		if l.line.p.within(lookPause) {
			return l.line.p.ended(limit)
		}
		if why := l.why(l.stderr()); why != "" {
			return linkEnd{exit: -1, why: l.program + ": " + why}
		}
	}
	return linkEnd{exit: -1}
}
