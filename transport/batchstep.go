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
A OneStep starts helpers on the hosts of a batch job with one call of the starter. The starter copies its
input to all hosts, and merges the outputs of all hosts into one. These streams cannot carry the data of
several helpers, so the helpers connect to mpiexec (package dialback).

	mpiexec                          srun                     /bin/sh on each host
	   | script ---------------------> | ----------------------> |
	   | <---------------------------- | <-- HOST run WHERE      |   or HOST fail ...: that host gets a call of its own
	   | when all have replied:        |                         |
	   | join token -----------------> | ----------------------> helper
	   | <== TLS, one connection for each host =================> |   or HOST fail call WHY

A shell may read ahead, so only the script is sent before all shells have replied. The step ends when its
input ends, which is when mpiexec closes the last of the helpers' connections. When the step ends, all its
helpers end.
*/
type OneStep struct {
	PerHost *ByStarter // transport to a host by itself
}

var _ Transport = (*OneStep)(nil)

// These constants give the time limit of a batch step for all its hosts together. The limit applies to the replies
// of the shells, and then again to the connections of the helpers.
const (
	minStepTime     = time.Minute
	stepTimePerHost = 100 * time.Millisecond // added for each host
)

// maxReportedRefusals is the maximum number of refused connections that are reported for one listener.
const maxReportedRefusals = 8

// Route returns the words "by one step," and the command line that would call the starter for this host alone.
func (o *OneStep) Route(host Host) (string, error) {
	call, err := o.PerHost.starterCall(host)
	if err != nil {
		return "", err
	}
	return "by one step, " + strings.Join(o.PerHost.System.Starter.Step.Argv([]batch.Call{call}), " "), nil
}

// A stepHost is one host of a step. A step is one call of the starter for several hosts.
type stepHost struct {
	index int // index in the set
	host  Host
	call  batch.Call
}

// Dial starts helpers on the hosts of a set. The returned channel delivers one Result for each host.
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

// groupHosts divides a set of hosts into steps, each of which is one call of the starter. In a heterogeneous batch job,
// each part has steps of its own. A host gets a call of its own if it would be alone in a step, if mpiexec's binary is
// at a different path on that host, or if the binary must be sent to it. For a host that does not belong to the job,
// groupHosts sends a Result with an error.
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

// A stepAttempt is one call of the starter for several hosts, from the call until their helpers have
// connected.
type stepAttempt struct {
	*OneStep
	self      HelperBinary
	timeouts  stepTimeouts
	results   chan<- Result
	dialAlone func(stepHost)

	pending     map[string]stepHost // hosts that have no Result and no call of their own, by the batch system's host name
	shellsReady map[string]bool     // hosts whose shells have replied
	invited     bool
	reached     atomic.Int32 // number of helpers that have connected
}

func newStep(o *OneStep, members []stepHost, results chan<- Result, alone func(stepHost)) *stepAttempt {
	how := o.PerHost.System.Starter.Step
	s := &stepAttempt{OneStep: o, self: o.PerHost.Self.ForStep(how.HostVar, how.LauncherVar), timeouts: o.timeouts(len(members)), results: results, dialAlone: alone,
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

// timeouts returns the time limits for a given number of hosts. One limit is for the replies of the shells, and
// one for the connections of the helpers.
func (o *OneStep) timeouts(hosts int) stepTimeouts {
	t, more := programTimeouts(o.PerHost.Timeout, o.PerHost.Shell), time.Duration(hosts)*stepTimePerHost
	t.shell, t.others = max(t.shell, minStepTime)+more, max(t.others, minStepTime)+more
	return t
}

// dial calls the starter program. If the batch system is busy, it calls the program again, up to the allowed
// number of retries.
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
		s.PerHost.Log.Debug().Str("said", busy.Why).Msg("the batch system is busy, so mpiexec tries again")
		sleepContext(ctx, sshx.Backoff(tries, rand.Float64()))
	}
}

func hostError(m stepHost, at string, kind Kind, reason, remedy string) *Error {
	return &Error{Host: m.host.Name, Step: at, Kind: kind, Why: reason, Remedy: remedy}
}

// failPending sends a Result with an error for each host that has no Result yet.
func (s *stepAttempt) failPending(newError func(stepHost) error) {
	for host, m := range s.pending {
		delete(s.pending, host)
		s.results <- Result{Index: m.index, Err: newError(m)}
	}
}

func (s *stepAttempt) failContext(err error) {
	s.failPending(func(m stepHost) error {
		return hostError(m, "connect", KindCanceled, fmt.Sprintf("cancelled: %v", err), "").withCause(err)
	})
}

// attempt calls the starter program once. It returns nil if each host has a Result or will get its own call of
// the starter. It returns the starter's Verdict if the batch system is busy.
func (s *stepAttempt) attempt(ctx context.Context) (busy *Verdict) {
	hosts := slices.Sorted(maps.Keys(s.pending))
	refused := refusals{warn: s.PerHost.Warn}
	listener, err := dialback.Open(hosts, s.PerHost.Ports, refused.report)
	if err == nil {
		defer listener.Close()
		var p *localCommand
		if p, err = s.startStarter(hosts); err == nil {
			shared := &sharedStarter{program: p}
			shared.users.Store(1)
			defer shared.release()
			return s.awaitHelpers(ctx, listener, shared)
		}
	}
	s.failPending(func(m stepHost) error {
		return hostError(m, "start", KindOther, err.Error(), "use -launcher "+s.perHostOption()).withCause(err)
	})
	return nil
}

// perHostOption returns the value of the option -launcher that makes mpiexec call the starter once for each host.
func (s *stepAttempt) perHostOption() string { return s.PerHost.System.EachWord() }

// startStarter starts the starter program and sends it the script.
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
	io.WriteString(p, s.self.deliveryScript(newFileTag())) // a write error is ignored: if the starter has ended, its output says why
	return p, nil
}

// awaitHelpers handles replies of shells and connections of helpers until each host has a Result. If the
// batch system is busy, it returns the starter's Verdict.
func (s *stepAttempt) awaitHelpers(ctx context.Context, listener *dialback.Listener, shared *sharedStarter) (busy *Verdict) {
	s.PerHost.Log.Info().Msgf("listening on port %d until the helpers of %s have connected", listener.Port(), strings.Join(slices.Sorted(maps.Keys(s.pending)), ","))
	lines, stop := make(chan stepLine), make(chan struct{})
	defer close(stop)
	go readStepOutput(shared.program, lines, stop)
	limit := deadline.New(ctx, s.timeouts.shell, errStepTimeout, nil)
	defer func() { limit.Stop() }()
	for len(s.pending) > 0 {
		if !s.invited && len(s.shellsReady) == len(s.pending) {
			s.invited = true
			limit.Stop()
			limit = deadline.New(ctx, s.timeouts.others, errStepTimeout, nil)
			io.WriteString(shared.program, listener.JoinToken(ownAddresses()).Text())
		}
		select {
		case c := <-listener.Connections():
			s.helperConnected(c, shared)
		case l, open := <-lines:
			if !open {
				return s.starterEnded(shared.program)
			}
			s.handleLine(l, listener)
		case <-limit.Context().Done():
			if cause := context.Cause(limit.Context()); cause != errStepTimeout {
				s.failContext(cause)
			} else {
				s.timeoutHosts(listener)
			}
		}
	}
	return nil
}

// helperConnected sends the Result for a host whose helper has connected.
func (s *stepAttempt) helperConnected(c dialback.Connection, shared *sharedStarter) {
	m, pending := s.pending[c.Host]
	if !pending {
		c.Stream.Close()
		return
	}
	s.dropHost(c.Host)
	s.reached.Add(1)
	shared.users.Add(1)
	conn := newConn(&stepLink{Conn: c.Stream, starter: shared, why: func(stderr string) string { return s.PerHost.System.Starter.Step.ErrorLine(stderr, c.Host) }, program: s.PerHost.System.Starter.Program})
	conn.build, conn.source = s.self.Build, "found"
	s.results <- Result{Index: m.index, Stream: conn}
}

func (s *stepAttempt) dropHost(host string) {
	delete(s.pending, host)
	delete(s.shellsReady, host)
}

// handleLine handles a line that the shell of a host, or a helper that cannot connect, has printed.
func (s *stepAttempt) handleLine(l stepLine, listener *dialback.Listener) {
	m, pending := s.pending[l.host]
	switch why, unable := strings.CutPrefix(l.text, cannotDialBackPrefix); {
	case !pending:
	case l.verb == "run":
		s.shellsReady[l.host] = true
	case l.verb == "fail":
		s.dropHost(l.host)
		listener.StopExpecting(l.host)
		if !unable {
			s.PerHost.Log.Debug().Str("host", m.host.Name).Str("said", l.text).Msg("mpiexec connects to the host separately")
			s.dialAlone(m)
			return
		}
		s.results <- Result{Index: m.index, Err: hostError(m, "helper", KindNoRoute, fmt.Sprintf("cannot connect to this host on port %d (%s)", listener.Port(), why), "use -launcher "+s.perHostOption())}
	}
}

// timeoutHosts sends an error for each host whose time limit has passed. Until the join token has been sent, these are
// the hosts whose shell has not replied. Afterwards, these are the hosts whose helper has not connected.
func (s *stepAttempt) timeoutHosts(listener *dialback.Listener) {
	for host, m := range s.pending {
		if !s.invited && s.shellsReady[host] {
			continue
		}
		e := hostError(m, "connect", KindNoRoute, "the host did not answer within "+formatSeconds(s.timeouts.shell), "")
		if s.invited {
			e = hostError(m, "helper", KindNoRoute, fmt.Sprintf("the helper did not connect to this host on port %d within %s", listener.Port(), formatSeconds(s.timeouts.others)), "use -launcher "+s.perHostOption())
		}
		s.dropHost(host)
		listener.StopExpecting(host)
		s.results <- Result{Index: m.index, Err: s.PerHost.withStarterHelp(e)}
	}
}

// starterEnded handles the end of the starter program before all helpers have connected. If the batch system is
// busy, it returns the starter's Verdict.
func (s *stepAttempt) starterEnded(p *localCommand) (busy *Verdict) {
	v := p.verdict(p.ended(programEndTime).exit)
	if v.Kind == KindBusy && s.reached.Load() == 0 {
		clear(s.shellsReady)
		s.invited = false
		return &v
	}
	s.failPending(func(m stepHost) error {
		return hostError(m, v.Step, v.Kind, cmp.Or(s.PerHost.System.Starter.Step.ErrorLine(p.stderr(), m.call.Host), v.Why), v.Hint)
	})
	return nil
}

// refusals counts the refused connections of one listener.
type refusals struct {
	warn  func(string)
	count atomic.Int32
}

// report reports a refused connection. After maxReportedRefusals connections it reports once that there are more, and
// then nothing.
func (s *refusals) report(peer netip.Addr, reason string) {
	switch n := s.count.Add(1); {
	case n <= maxReportedRefusals:
		s.warn(fmt.Sprintf("warning: refused a connection from %s: %s", peer, reason))
	case n == maxReportedRefusals+1:
		s.warn("warning: further refused connections are not reported")
	}
}

// A stepLine is a line of a step's output that comes from the shell or helper of one host.
type stepLine struct{ host, verb, text string }

// parseStepLine parses a line of a step's output. ok is false if the line is not part of the protocol.
func parseStepLine(line string) (l stepLine, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), lineMarker)
	l.host, rest, _ = strings.Cut(rest, " ")
	l.verb, l.text, _ = strings.Cut(rest, " ")
	return l, ok && l.host != "" && (l.verb == "run" || l.verb == "fail")
}

// cannotDialBackPrefix is the beginning of the message that a helper sends if it cannot connect to mpiexec.
const cannotDialBackPrefix = "call "

// ReportCannotDialBack writes a line to a step's output to report that the helper on host cannot connect to mpiexec.
// cause is the reason.
func ReportCannotDialBack(out io.Writer, host string, cause error) {
	fmt.Fprintf(out, "%s%s fail %s%s\n", lineMarker, host, cannotDialBackPrefix, cause)
}

// readStepOutput reads the output of a step until its end, so that the starter program never blocks in a write. It
// sends each line of the protocol to the channel lines. After stop is closed, it drops these lines.
func readStepOutput(out io.Reader, lines chan<- stepLine, stop <-chan struct{}) {
	defer close(lines)
	in := bufio.NewReaderSize(out, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if l, ok := parseStepLine(string(line)); ok && err == nil {
			select {
			case lines <- l:
			case <-stop:
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// ownAddresses returns the addresses of this machine that other machines may be able to reach.
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

// A sharedStarter is a starter process that several helpers use, with a count of these users. When the last user is
// gone, the input of the process is closed. Then the starter and all its helpers end.
type sharedStarter struct {
	program *localCommand
	users   atomic.Int32
}

func (c *sharedStarter) release() {
	if c.users.Add(-1) == 0 {
		c.program.Close()
	}
}

// A stepLink is the connection that a helper has made, together with the starter process that has started the
// helper.
type stepLink struct {
	net.Conn
	starter *sharedStarter
	program string
	why     func(stderr string) string // finds in stderr how the helper ended; empty if that is not known yet
	once    sync.Once
}

// Close closes the connection. Data that was written before is still sent.
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

// lookInterval is the interval at which stepLink.ended reads the starter's stderr, to find a line about the helper.
const lookInterval = 10 * time.Millisecond

// ended waits, at most for limit, until the step ends or the starter reports that this helper has ended. It returns how
// the helper ended.
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
