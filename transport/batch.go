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

// A ByStarter starts helpers on the hosts of a batch job with the batch system's starter program (srun, qrsh, ...). It
// calls the starter once for each host. Package batch describes the starters and their options. The fields of a
// ByStarter must not change after the first call of Dial.
type ByStarter struct {
	Self        HelperBinary
	System      *batch.System                  // the batch system; it has a Starter
	Program     string                         // path of the starter
	Args        []string                       // -launcher-args, already split
	Env         []string                       // environment of mpiexec; the starter does not get all of it
	StarterHelp func() string                  // the starter's help text on its options; called when the first host is dialled
	StarterCall func(Host) (batch.Call, error) // returns the call for a host, or an error if the host is not part of the job
	Timeout     time.Duration                  // time limit for a login, which the starter does not report; 0 means 10 s
	Shell       time.Duration                  // time limit for each step after the login; 0 means 60 s
	Retries     int                            // number of attempts if the batch system is busy; 0 means 4
	Pacer       *sshx.Pacer                    // limits how many hosts are being set up at once
	Log         zerolog.Logger
	DialBack    bool           // helpers connect to mpiexec, if they can
	Ports       dialback.Ports // ports that may be opened for these connections; the zero value allows any
	Warn        func(string)   // reports refused connections, and helpers that cannot connect
}

var _ Transport = (*ByStarter)(nil)

// Dial starts a helper on each of the hosts. The returned channel delivers one Result for each host.
func (s *ByStarter) Dial(ctx context.Context, hosts []Host) <-chan Result {
	if !s.DialBack {
		return DialEach(ctx, hosts, s.dial)
	}
	c := s.listenForDialBacks(hosts)
	dial := s.dialTo
	if s.System.Starter.Secret != "" {
		dial = s.dialWithoutInput
	}
	return DialEach(ctx, hosts, func(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
		defer c.hostDone()
		return dial(ctx, host, c)
	})
}

// Route returns the word "by" and the command line with which the starter starts the helper on a host.
func (s *ByStarter) Route(host Host) (string, error) {
	argv, err := s.argv(host)
	return "by " + strings.Join(argv, " "), err
}

// starterCall returns the call of the starter for one host.
func (s *ByStarter) starterCall(host Host) (batch.Call, error) {
	call, err := s.StarterCall(host)
	if err == nil {
		call.Program, call.Help, call.ExtraArgs = s.Program, s.StarterHelp(), s.Args
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

// dial runs the starter for a host and returns the stream of the helper. The helper uses the stdin and stdout of
// the starter.
func (s *ByStarter) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	return s.dialTo(ctx, host, new(dialBackListener))
}

// dialTo runs the starter for a host and returns the stream of the helper. If c expects a connection from the host's
// helper, the helper connects to mpiexec instead of using the starter's streams.
func (s *ByStarter) dialTo(ctx context.Context, host Host, c *dialBackListener) (io.ReadWriteCloser, error) {
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

// withStarterHelp replaces the message of a timeout error, if the starter's help text explains the timeout.
func (s *ByStarter) withStarterHelp(err error) error {
	var e *Error
	if s.System.Starter.ExplainSilence == nil || !errors.As(err, &e) || e.Kind != KindNoRoute || e.Step != "connect" {
		return err
	}
	if why, remedy := s.System.Starter.ExplainSilence(s.StarterHelp()); why != "" {
		e.Why, e.Remedy = why, remedy
	}
	return err
}

// endProgram ends the starter program. helperRuns is true if the helper has started. In that case endProgram does not
// send SIGTERM, because the starter would then kill the ranks. The helper ends the ranks itself. After a grace period
// endProgram sends SIGKILL, which ends only the starter.
func (s *ByStarter) endProgram(p *localCommand, helperRuns bool) {
	if !helperRuns && s.System.Starter.EndsAtSIGTERM {
		p.signalGroup(syscall.SIGTERM)
	}
	if p.waitFor(s.System.Starter.EndGrace) {
		return
	}
	p.signalGroup(syscall.SIGKILL)
	p.waitFor(killGrace)
}

// verdict returns the reason why the starter ended before the helper had sent anything.
func (s *ByStarter) verdict(stderr string, exit int) Verdict {
	v := s.System.Starter.Diagnose(stderr, exit)
	kind := KindOther
	if v.Busy {
		kind = KindBusy
	}
	return Verdict{Kind: kind, Step: s.System.Starter.Program, Why: v.Why, Hint: v.Remedy}
}

// why returns the reason why the starter ended after the helper had sent something.
func (s *ByStarter) why(status error, stderr string) string {
	return s.System.Starter.Program + ": " + cmp.Or(s.System.Starter.ErrorLine(stderr), waitErrorText(status))
}

// NotInJob returns the error for a host that does not belong to the batch job with this number in the batch system.
func NotInJob(host, system, number string) error {
	return &Error{Host: host, Step: "config", Kind: KindConfig, Why: fmt.Sprintf("the host is not part of %s", batch.JobName(system, number)),
		Remedy: "add it to the allocation, or use -launcher ssh --allow-outside"}
}

// A dialBackListener waits for the TCP connections of helpers. Each helper is started by its own call of the starter
// (rule RM-36):
//
//	mpiexec                                    helper
//	   | <---------------- run WHERE            over the starter's streams, as usual
//	   | join token ----------------------->
//	   | <== TLS ==========================>    or
//	   | <---------------- stay WHY             it cannot connect: it uses the starter's streams
//
// The zero value expects no helper to connect.
type dialBackListener struct {
	starter    *ByStarter
	listener   *dialback.Listener
	joinToken  string
	listenErr  error // why there is no listener, though one was wanted
	pending    refusals
	remaining  atomic.Int32 // hosts that have no Result yet
	closed     chan struct{}
	toldUnable atomic.Bool // a warning was printed that a helper cannot connect

	mu      sync.Mutex               // guards streams
	streams map[string]chan net.Conn // for the connections of hosts that dialBackOf was not called for, by the batch system's host name; each has capacity 1
}

// listenForDialBacks opens a port to which the helpers of hosts can connect. If that fails, it prints a warning, and
// the helpers use the starter's streams instead. A starter with a Secret has no streams for helpers. For such a
// starter, listenErr is set in the result instead of the warning.
func (s *ByStarter) listenForDialBacks(hosts []Host) *dialBackListener {
	c := &dialBackListener{starter: s, streams: make(map[string]chan net.Conn), closed: make(chan struct{}), pending: refusals{warn: s.Warn}}
	c.remaining.Store(int32(len(hosts)))
	var names []string
	for _, host := range hosts {
		if call, err := s.starterCall(host); err == nil && !slices.Contains(names, call.Host) { // a second name of a host uses the starter's streams
			names = append(names, call.Host)
		}
	}
	if len(names) == 0 {
		return c
	}
	listener, err := dialback.Open(names, s.Ports, c.pending.report)
	if c.listenErr = err; err != nil && s.System.Starter.Secret != "" {
		return c
	}
	if err != nil {
		s.Warn(fmt.Sprintf("warning: helpers cannot connect to this host (%v): their data goes through %s", err, s.System.Starter.Program))
		return c
	}
	for _, name := range names {
		c.streams[name] = make(chan net.Conn, 1)
	}
	token := s.joinToken(listener)
	c.listener, c.joinToken = listener, token.Text()
	s.Log.Info().Msgf("listening on port %d until the helpers of %s have connected", listener.Port(), strings.Join(names, ","))
	go c.deliverStreams(maps.Clone(c.streams))
	return c
}

// joinToken returns the token that helpers need to connect to a listener. If the starter gives helpers no streams,
// the token says that they must connect.
func (s *ByStarter) joinToken(listener *dialback.Listener) dialback.JoinToken {
	if secret := s.System.Starter.Secret; secret != "" {
		return listener.PublicJoinToken(ownAddresses(), secret, envValue(s.Env, secret))
	}
	token := listener.JoinToken(ownAddresses())
	token.Streams = true
	return token
}

// envValue returns the value of a variable in an environment. If the variable is set several times, envValue
// returns the last value.
func envValue(environ []string, name string) (value string) {
	for _, assignment := range environ {
		if rest, found := strings.CutPrefix(assignment, name+"="); found {
			value = rest
		}
	}
	return value
}

// deliverStreams passes each helper's connection to the dialBack of the helper's host. channels contains the channel of
// each host's dialBack.
func (c *dialBackListener) deliverStreams(channels map[string]chan net.Conn) {
	for {
		select {
		case a := <-c.listener.Connections():
			channels[a.Host] <- a.Stream
		case <-c.closed:
			return
		}
	}
}

// hostDone records that one host has its Result. When all hosts have a Result, hostDone closes the port to which
// helpers connect.
func (c *dialBackListener) hostDone() {
	if c.remaining.Add(-1) == 0 && c.listener != nil {
		c.listener.Close()
		close(c.closed)
	}
}

// dialBackOf returns the dialBack of a host on the first call for that host. It returns nil on later calls, and for a
// host whose helper does not connect to mpiexec.
func (c *dialBackListener) dialBackOf(host string) *dialBack {
	c.mu.Lock()
	defer c.mu.Unlock()
	stream, ok := c.streams[host]
	if !ok {
		return nil
	}
	delete(c.streams, host)
	return &dialBack{host, stream, c}
}

// A dialBack waits for the connection that one host's helper makes to mpiexec. A nil *dialBack means that the
// helper makes no connection.
type dialBack struct {
	host   string // as the batch system spells it
	stream <-chan net.Conn
	owner  *dialBackListener
}

// cannotDialBack reports that a helper cannot connect to mpiexec. For the first such host this is a warning, and
// for other hosts a log line.
func (b *dialBack) cannotDialBack(reason string) {
	s := b.owner.starter
	text := fmt.Sprintf("%s cannot connect to this host on port %d (%s): its data goes through %s", b.host, b.owner.listener.Port(), reason, s.System.Starter.Program)
	if b.owner.toldUnable.CompareAndSwap(false, true) {
		s.Warn("warning: " + text + "; give open ports with --port-range LOW:HIGH, or avoid ports with -launcher " + s.System.StreamsWord())
		return
	}
	s.Log.Info().Msg(text)
}

// sendsProgram logs that mpiexec's binary is sent over the streams of the starter program. Until the binary has
// arrived, there is no program on the host that could connect to mpiexec (rule RM-36).
func (b *dialBack) sendsProgram(size int64) {
	s := b.owner.starter
	s.Log.Info().Msgf("%s has no copy of mpiexec: sending %d MB through %s; to avoid this, install mpiexec on a path that all hosts share",
		b.host, (size+1<<20-1)>>20, s.System.Starter.Program)
}

// stopExpecting records that the helper has connected or will not connect. Any later connection of that helper is
// refused.
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

// newLink returns a helperLink for the connection that the helper has made. p is the starter process that has
// started the helper.
func (b *dialBack) newLink(conn net.Conn, p *localCommand) helperLink {
	shared := &sharedStarter{program: p}
	shared.users.Store(1)
	return &stepLink{Conn: conn, starter: shared, program: b.owner.starter.System.Starter.Program, why: func(string) string { return "" }}
}
