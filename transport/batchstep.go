package transport

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
	"remshell/sshx"
	"remshell/transport/dialback"
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
	PerHost *ByStarter // the way to a host by itself
}

var _ Transport = (*OneStep)(nil)

// How long the hosts of a step may take together, at least: first until each shell has said what it runs, then until each helper
// has called.
const (
	minStepTime     = time.Minute
	stepTimePerHost = 100 * time.Millisecond // and for each host more
)

// maxToldRefusals is how many strangers are told of, for each port.
const maxToldRefusals = 8

// Route is that of a host by itself, but for how many are called together.
func (o *OneStep) Route(host Host) (string, error) {
	call, err := o.PerHost.starterCall(host)
	if err != nil {
		return "", err
	}
	return "by one step, " + strings.Join(o.PerHost.System.Starter.Step.Argv([]batch.Call{call}), " "), nil
}

// A stepHost is one host of a step.
type stepHost struct {
	index int // of the set
	host  Host
	call  batch.Call
}

// Dial reaches the hosts of a set.
func (o *OneStep) Dial(ctx context.Context, hosts []Host) <-chan Result {
	results := make(chan Result, len(hosts))
	var dialing sync.WaitGroup
	alone := func(m stepHost) {
		dialing.Go(func() {
			stream, err := dialRecovered(ctx, m.host, o.PerHost.dial)
			results <- Result{m.index, stream, err}
		})
	}
	steps, single := o.groupHosts(hosts, results)
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

// groupHosts makes steps of a set. Hosts of one part of the job go together; one that would be alone, and one where the
// program is elsewhere or has to be sent, is reached by itself. What is no host of the job has its Result.
func (o *OneStep) groupHosts(hosts []Host, results chan<- Result) (steps [][]stepHost, single []stepHost) {
	parts := make(map[int]int) // a part of the job -> its last step
	for at, host := range hosts {
		call, err := o.PerHost.starterCall(host)
		m := stepHost{at, host, call}
		switch i, known := parts[call.Part]; {
		case err != nil:
			results <- Result{Index: at, Err: err}
		case host.Helper != "" || o.PerHost.Self.delivery == "always":
			single = append(single, m)
		case !known || len(steps[i]) == batch.MaxStep:
			parts[call.Part] = len(steps)
			steps = append(steps, []stepHost{m})
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

// A stepAttempt is one call of the starter, while it is being set up.
type stepAttempt struct {
	*OneStep
	self      HelperBinary
	timeouts  stepTimeouts
	results   chan<- Result
	dialAlone func(stepHost)

	pending     map[string]stepHost // who has no Result and is not reached by itself, by the batch system's name
	shellsReady map[string]bool     // shells that have told what they run
	invited     bool
	reached     atomic.Int32 // hosts
}

func newStep(o *OneStep, members []stepHost, results chan<- Result, alone func(stepHost)) *stepAttempt {
	how := o.PerHost.System.Starter.Step
	s := &stepAttempt{OneStep: o, self: o.PerHost.Self.ForStep(how.Host, how.Near), timeouts: o.timeouts(len(members)), results: results, dialAlone: alone,
		pending: make(map[string]stepHost), shellsReady: make(map[string]bool)}
	for _, m := range members {
		if _, twice := s.pending[m.call.Host]; twice { // two names of one host
			alone(m)
			continue
		}
		s.pending[m.call.Host] = m
	}
	return s
}

// timeouts are how long the shells of so many hosts may take, and then their helpers.
func (o *OneStep) timeouts(hosts int) stepTimeouts {
	t, more := programTimeouts(o.PerHost.Timeout, o.PerHost.Shell), time.Duration(hosts)*stepTimePerHost
	t.shell, t.others = max(t.shell, minStepTime)+more, max(t.others, minStepTime)+more
	return t
}

// dial calls the starter until it has something better to do than to be busy.
func (s *stepAttempt) dial(ctx context.Context) {
	defer func() {
		if why := recover(); why != nil {
			s.failPending(func(stepHost) error { return NewPanicError(why) })
		}
	}()
	for tries := 1; ; tries++ {
		pass, err := s.PerHost.Pacer.Acquire(ctx, sshx.UnknownServer)
		if err != nil {
			s.failContext(err)
			return
		}
		busy := s.attempt(ctx)
		pass.Release(map[bool]sshx.Outcome{true: sshx.Dropped, false: sshx.LoggedIn}[busy != nil], nil)
		if busy == nil {
			return
		}
		if tries >= cmp.Or(max(s.PerHost.Retries, 0), defaultRetries) {
			s.failPending(func(m stepHost) error { return hostError(m, "connect", KindBusy, busy.Why, busy.Hint) })
			return
		}
		s.PerHost.Log.Debug().Str("said", busy.Why).Msg("batch system is busy, trying again")
		sleepContext(ctx, sshx.Backoff(tries, rand.Float64()))
	}
}

func hostError(m stepHost, at string, kind Kind, why, remedy string) *Error {
	return &Error{Host: m.host.Name, Step: at, Kind: kind, Why: why, Remedy: remedy}
}

// failPending ends all who are waited for.
func (s *stepAttempt) failPending(why func(stepHost) error) {
	for host, m := range s.pending {
		delete(s.pending, host)
		s.results <- Result{Index: m.index, Err: why(m)}
	}
}

func (s *stepAttempt) failContext(err error) {
	s.failPending(func(m stepHost) error {
		return hostError(m, "connect", KindCanceled, fmt.Sprintf("given up: %v", err), "").withCause(err)
	})
}

// attempt calls the starter once. When it returns there is a Result for each host, or one is made elsewhere, or
// the batch system is busy.
func (s *stepAttempt) attempt(ctx context.Context) (busy *Verdict) {
	hosts := slices.Sorted(maps.Keys(s.pending))
	refused := refusals{warn: s.PerHost.Warn}
	desk, err := dialback.Open(hosts, s.PerHost.Ports, refused.report)
	if err == nil {
		defer desk.Close()
		var p *localCommand
		if p, err = s.startStarter(hosts); err == nil {
			line := &sharedStarter{program: p}
			line.users.Store(1)
			defer line.release()
			return s.awaitHelpers(ctx, desk, line)
		}
	}
	s.failPending(func(m stepHost) error {
		return hostError(m, "start", KindOther, err.Error(), "use -launcher "+s.perHostOption()).withCause(err)
	})
	return nil
}

// perHostOption is the word of -launcher by which every host is reached by itself.
func (s *stepAttempt) perHostOption() string { return s.PerHost.System.EachWord() }

// startStarter runs the starter, and sends the script.
func (s *stepAttempt) startStarter(hosts []string) (*localCommand, error) {
	var calls []batch.Call
	for _, host := range hosts {
		calls = append(calls, s.pending[host].call)
	}
	argv := s.PerHost.System.Starter.Step.Argv(calls)
	s.PerHost.Log.Debug().Strs("argv", argv).Msg("starting")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.PerHost.System.Starter.Environ(s.PerHost.Env)
	p, err := startProcess(cmd, func(p *localCommand) { s.PerHost.endProgram(p, s.reached.Load() > 0) }, endLeftovers)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", argv[0], innermost(err))
	}
	p.interpret = stderrReader{s.PerHost.verdict, s.PerHost.why}
	io.WriteString(p, s.self.deliveryScript(newFileTag())) // if it has ended, it says why
	return p, nil
}

// awaitHelpers hears shells and helpers until nobody is waited for.
func (s *stepAttempt) awaitHelpers(ctx context.Context, desk *dialback.Listener, line *sharedStarter) (busy *Verdict) {
	s.PerHost.Log.Info().Msgf("listening on port %d until %s have called", desk.Port(), strings.Join(slices.Sorted(maps.Keys(s.pending)), ","))
	said, enough := make(chan stepLine), make(chan struct{})
	defer close(enough)
	go readStepOutput(line.program, said, enough)
	limit := deadline.New(ctx, s.timeouts.shell, errStepTimeout, nil)
	defer func() { limit.Stop() }()
	for len(s.pending) > 0 {
		if !s.invited && len(s.shellsReady) == len(s.pending) {
			s.invited = true
			limit.Stop()
			limit = deadline.New(ctx, s.timeouts.others, errStepTimeout, nil)
			io.WriteString(line.program, desk.JoinToken(ownAddresses()).Text())
		}
		select {
		case a := <-desk.Connections():
			s.helperConnected(a, line)
		case l, open := <-said:
			if !open {
				return s.starterEnded(line.program)
			}
			s.handleLine(l, desk)
		case <-limit.Context().Done():
			if cause := context.Cause(limit.Context()); cause != errStepTimeout {
				s.failContext(cause)
			} else {
				s.timeoutHosts(desk)
			}
		}
	}
	return nil
}

// helperConnected makes a Result of a helper that has called.
func (s *stepAttempt) helperConnected(a dialback.Connection, line *sharedStarter) {
	m, waited := s.pending[a.Host]
	if !waited {
		a.Stream.Close()
		return
	}
	s.dropHost(a.Host)
	s.reached.Add(1)
	line.users.Add(1)
	conn := newConn(&stepLink{Conn: a.Stream, starter: line, why: func(stderr string) string { return s.PerHost.System.Starter.Step.Line(stderr, a.Host) }, program: s.PerHost.System.Starter.Program})
	conn.build, conn.source = s.self.Build, "found"
	s.results <- Result{Index: m.index, Stream: conn}
}

func (s *stepAttempt) dropHost(host string) {
	delete(s.pending, host)
	delete(s.shellsReady, host)
}

// handleLine takes what a shell, or a helper that cannot call, has said.
func (s *stepAttempt) handleLine(l stepLine, desk *dialback.Listener) {
	m, waited := s.pending[l.host]
	switch why, unable := strings.CutPrefix(l.text, cannotDialBackPrefix); {
	case !waited:
	case l.verb == "run":
		s.shellsReady[l.host] = true
	case l.verb == "fail":
		s.dropHost(l.host)
		desk.StopExpecting(l.host)
		if !unable {
			s.PerHost.Log.Debug().Str("host", m.host.Name).Str("said", l.text).Msg("reaching it by itself")
			s.dialAlone(m)
			return
		}
		s.results <- Result{Index: m.index, Err: hostError(m, "helper", KindNoRoute, fmt.Sprintf("cannot connect to this host on port %d (%s)", desk.Port(), why), "use -launcher "+s.perHostOption())}
	}
}

// timeoutHosts gives up who has kept us waiting: shells that say nothing, and if there are none, helpers that do not call.
func (s *stepAttempt) timeoutHosts(desk *dialback.Listener) {
	for host, m := range s.pending {
		if !s.invited && s.shellsReady[host] {
			continue
		}
		e := hostError(m, "connect", KindNoRoute, "cannot reach: no answer in "+formatSeconds(s.timeouts.shell), "")
		if s.invited {
			e = hostError(m, "helper", KindNoRoute, fmt.Sprintf("it did not call this host on port %d within %s", desk.Port(), formatSeconds(s.timeouts.others)), "use -launcher "+s.perHostOption())
		}
		s.dropHost(host)
		desk.StopExpecting(host)
		s.results <- Result{Index: m.index, Err: s.PerHost.withStarterHelp(e)}
	}
}

// starterEnded is the end of the starter before all have called.
func (s *stepAttempt) starterEnded(p *localCommand) (busy *Verdict) {
	v := p.verdict(p.ended(programEndTime).exit)
	if v.Kind == KindBusy && s.reached.Load() == 0 {
		clear(s.shellsReady)
		s.invited = false
		return &v
	}
	s.failPending(func(m stepHost) error {
		return hostError(m, v.Step, v.Kind, cmp.Or(s.PerHost.System.Starter.Step.Line(p.stderr(), m.call.Host), v.Why), v.Hint)
	})
	return nil
}

// refusals are those who were refused at a port.
type refusals struct {
	warn  func(string)
	count atomic.Int32
}

// report tells of one, but not of any number.
func (s *refusals) report(from netip.Addr, why string) {
	switch n := s.count.Add(1); {
	case n <= maxToldRefusals:
		s.warn(fmt.Sprintf("warning: refused a connection from %s: %s", from, why))
	case n == maxToldRefusals+1:
		s.warn("warning: refused more connections, which are not told of")
	}
}

// A stepLine is a line that a shell or helper of a step has said.
type stepLine struct{ host, verb, text string }

// parseStepLine takes a line apart; what is none of ours is nothing.
func parseStepLine(line string) (l stepLine, ours bool) {
	rest, ours := strings.CutPrefix(strings.TrimRight(line, "\r\n"), lineMarker)
	l.host, rest, _ = strings.Cut(rest, " ")
	l.verb, l.text, _ = strings.Cut(rest, " ")
	return l, ours && l.host != "" && (l.verb == "run" || l.verb == "fail")
}

// cannotDialBackPrefix begins the text of a helper that cannot call.
const cannotDialBackPrefix = "call "

// ReportCannotDialBack is how the helper of a host says that it cannot call, and why, on the output of its step.
func ReportCannotDialBack(out io.Writer, host string, why error) {
	fmt.Fprintf(out, "%s%s fail %s%s\n", lineMarker, host, cannotDialBackPrefix, why)
}

// readStepOutput reads what comes back from the step until its end, so that it never waits for us; when there is enough of it
// nobody is told any more.
func readStepOutput(out io.Reader, said chan<- stepLine, enough <-chan struct{}) {
	defer close(said)
	in := bufio.NewReaderSize(out, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if l, ours := parseStepLine(string(line)); ours && err == nil {
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

// A sharedStarter is the process of a step, which ends with the last who uses it: its helpers do, when its input ends.
type sharedStarter struct {
	program *localCommand
	users   atomic.Int32
}

func (c *sharedStarter) release() {
	if c.users.Add(-1) == 0 {
		c.program.Close()
	}
}

// A stepLink is the connection of a helper that has called, and the step that it is of, be it of one host.
type stepLink struct {
	net.Conn
	starter *sharedStarter
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
		l.starter.release()
	})
	return nil
}

func (l *stepLink) stderr() string           { return l.starter.program.stderr() }
func (l *stepLink) verdict(exit int) Verdict { return l.starter.program.verdict(exit) }
func (l *stepLink) localAddr() net.Addr      { return l.LocalAddr() }
func (l *stepLink) silence() time.Duration   { return 0 }

// lookInterval is how often it is seen whether the starter has said something of a helper's end.
const lookInterval = 10 * time.Millisecond

// ended waits for the end of the step, or for what the starter says of this helper's.
func (l *stepLink) ended(limit time.Duration) linkEnd {
	for waited := time.Duration(0); waited < limit; waited += lookInterval {
		if l.starter.program.waitFor(lookInterval) {
			return l.starter.program.ended(limit)
		}
		if why := l.why(l.stderr()); why != "" {
			return linkEnd{exit: -1, why: l.program + ": " + why}
		}
	}
	return linkEnd{exit: -1}
}
