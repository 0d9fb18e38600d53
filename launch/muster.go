package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// muster reaches all candidates at once, and the queue host, and hears what their helpers
// found. A candidate that cannot be reached fails the job, since the user named it,
// unless it may be skipped (SSH-6).
func (b *booking) muster(ctx context.Context) error {
	var wanted []job.NodeDef
	connected := b.byName()
	for _, def := range b.req.Nodes {
		if connected[def.Name] == nil && plan.Worth(b.req, def) { // else the plan will say why
			wanted = append(wanted, def)
		}
	}
	candidates := len(wanted)
	for _, host := range b.req.Queue.Keepers() {
		if connected[host.Name] == nil && !slices.ContainsFunc(wanted, host.Same) {
			wanted = append(wanted, host)
		}
	}
	b.reach(ctx, wanted, candidates)
	failed := b.failures()
	if ctx.Err() != nil {
		return whyUnmustered(ctx, failed)
	}
	if len(failed) > 0 && (!b.req.Skip || len(b.reached()) == 0) {
		return b.unreached(failed)
	}
	return b.chooseQueue()
}

// spareTime is how long a queue host may be silent when another node has answered, where
// there are others to keep the queue (survive.md SV-36).
const spareTime = 3 * time.Second

var errSilent = fmt.Errorf("no answer %v after others", spareTime)

// reach connects to nodes, all at once, and begins to listen to those that answer. What
// came of each is noted by name. Of the queue hosts, which come behind the candidates,
// one that is dead does not keep us waiting if there are others.
func (b *booking) reach(ctx context.Context, defs []job.NodeDef, candidates int) {
	spare, give := context.WithCancelCause(ctx)
	defer give(nil)
	if len(b.req.Queue.Spare) == 0 {
		spare = ctx
	}
	var once sync.Once
	reached := make([]*node, len(defs))
	errs := make([]error, len(defs))
	var dialing sync.WaitGroup
	connects := make([]job.Connect, len(defs))
	answered, shown := watchReach(b.env, defs)
	for i, def := range defs {
		dialing.Go(func() {
			began := time.Now()
			ctx := ctx
			if i >= candidates {
				ctx = spare
			}
			reached[i], errs[i] = reachNode(ctx, def, b.env)
			if errs[i] == nil {
				once.Do(func() { time.AfterFunc(spareTime, func() { give(errSilent) }) })
			} else if context.Cause(ctx) == errSilent {
				errs[i] = errSilent
			}
			connects[i] = connected(def, reached[i], errs[i], time.Since(began))
			b.env.watcher().Connected(connects[i])
			answered(def)
		})
	}
	dialing.Wait()
	shown()
	b.fleet.connects = append(b.fleet.connects, connects...)
	for i, n := range reached {
		if b.errs[defs[i].Name] = errs[i]; errs[i] == nil {
			b.fleet.all = append(b.fleet.all, n)
			go b.fleet.read(n)
		}
	}
}

// saySkipped tells which candidates the job goes without. A job that fails for want of
// nodes tells it as the reason instead.
func (b *booking) saySkipped() {
	for _, failure := range foldFailures(b.failures()) {
		if errors.Is(failure, errImpostor) {
			continue // it was said, with the name of the other one
		}
		text := failure.Error()
		if !violates(failure) { // or it says so itself
			text += "; skipped"
		}
		b.env.Say(text)
	}
}

// connected tells how a node was reached, or why not.
func connected(def job.NodeDef, n *node, err error, took time.Duration) job.Connect {
	c := job.Connect{Node: def.Name, Took: took}
	if err != nil {
		c.Err = err.Error()
		return c
	}
	c.Host = n.probe.Hostname
	if s, ok := n.rw.(interface{ Sent() int64 }); ok {
		c.Sent = s.Sent()
	}
	return c
}

// byName are the nodes that are connected.
func (b *booking) byName() map[string]*node {
	by := make(map[string]*node, len(b.fleet.all))
	for _, n := range b.fleet.all {
		if n.lost == nil && by[n.def.Name] == nil {
			by[n.def.Name] = n
		}
	}
	return by
}

// failures are the candidates that cannot be used, in their order.
func (b *booking) failures() (failed []job.Failure) {
	for _, def := range b.req.Nodes {
		if err := b.errs[def.Name]; err != nil {
			failed = append(failed, job.Failure{Node: def.Name, Origin: def.Origin, Err: err})
		}
	}
	return failed
}

// unreached is the end of an attempt that lacks hosts it cannot do without. Who waits
// anyway waits for them to come back, too.
func (b *booking) unreached(failed []job.Failure) error {
	hosts := &HostsError{failed, len(b.fleet.all) > 0}
	if b.spot.began.IsZero() {
		return hosts
	}
	return &plan.Error{Code: unreachable, Text: strings.ReplaceAll(hosts.Error(), "\n", ", "), Position: b.spot.ahead + 1,
		Way: "or start on the others: --skip-unreachable"}
}

// reached are the nodes that were reached and may get ranks, as the queue host may not, also
// those that are lost by now.
func (b *booking) reached() (nodes []*node) {
	named := make(map[string]bool, len(b.req.Nodes))
	for _, def := range b.req.Nodes {
		named[def.Name] = true
	}
	for _, n := range b.fleet.all {
		if named[n.def.Name] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// look makes the snapshot of what is known now.
func (b *booking) look() {
	b.snap.Nodes, b.seen = nil, nil
	left := namesOf(job.Ticket{Nodes: b.aside}) // to the head of the queue
	connected := b.byName()
	for _, def := range b.req.Nodes {
		if n := connected[def.Name]; n != nil && !left[hostName(n.probe, def)] {
			b.seen = append(b.seen, n)
			b.snap.Nodes = append(b.snap.Nodes, job.Node{NodeDef: n.ruled(), Probe: n.probe, Use: n.use.And(b.own[n]), Mine: b.own[n].Busy})
		}
	}
	plan.Partition(b.snap.Nodes)
	for i, n := range b.seen { // what is told of bindings later counts in the same cores
		n.probe = b.snap.Nodes[i].Probe
	}
	b.snap.Failed = b.failures()
}

// ruled is the node as its cluster file has it, and as its own administrator lets it be used.
func (n *node) ruled() job.NodeDef {
	def := n.def
	def.Closed = n.barred
	if n.most != nil && (def.MaxProcs == nil || *n.most < *def.MaxProcs) {
		def.MaxProcs = n.most
	}
	return def
}

// whyUnmustered is the reason for which ctx ended: a signal, or the time for a start,
// and then the hosts that had not answered.
func whyUnmustered(ctx context.Context, failed []job.Failure) error {
	cause := context.Cause(ctx)
	var late *StartError
	if !errors.As(cause, &late) || len(failed) == 0 {
		return cause
	}
	var hosts []string
	for _, f := range failed {
		hosts = append(hosts, f.Node)
	}
	return &StartError{late.Text + ": no answer yet from " + fold(hosts), late.Way, late.Code}
}

// reachNode connects to one node. An attempt that failed when we were stopped says nothing of
// the node: what guards it has run on, there and here (SIG-5).
func reachNode(ctx context.Context, def job.NodeDef, env Env) (*node, error) {
	for {
		slept := env.pauses.sum()
		n, err := reachOnce(ctx, def, env)
		if err == nil || ctx.Err() != nil || env.pauses.sum() == slept {
			return n, err
		}
	}
}

// reachOnce connects to one node and takes its helper's first words.
func reachOnce(ctx context.Context, def job.NodeDef, env Env) (n *node, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = crashed(env, def.Name, why)
			if n != nil {
				n.conn.Abandon()
			}
			n = nil
		}
	}()
	began := time.Now()
	rw, err := env.Dialer.Dial(ctx, def)
	if err != nil {
		return nil, err
	}
	n = &node{name: def.Name, def: def, index: -1, rw: rw, conn: wire.NewConn(rw, wire.Launcher)}
	n.gate = newGate(def, env.Silence)
	late := env.pauses.after(env.Greet, func() { n.conn.Abandon() })
	stop := context.AfterFunc(ctx, func() { n.conn.Abandon() })
	defer stop()
	err = n.greet(env)
	if !late.Stop() {
		n.conn.Abandon()
		return nil, silence{env.Greet}
	}
	if err != nil {
		n.conn.Abandon()
		return nil, n.unfit(err)
	}
	n.describe(env.Log.Info()).Str("took", time.Since(began).Round(time.Millisecond).String()).Msg("reached")
	return n, nil
}

// describe adds to a line of the log how the node was reached, as far as its stream
// tells.
func (n *node) describe(line *zerolog.Event) *zerolog.Event {
	line = line.Str("node", n.def.Name).Str("named", n.def.Origin).Int("CPUs", n.probe.Topology.Units())
	if s, ok := n.rw.(interface{ Way() string }); ok {
		line = line.Str("program", s.Way())
	}
	if s, ok := n.rw.(interface{ Noise() []byte }); ok && len(s.Noise()) > 0 {
		line = line.Bytes("login shell printed", s.Noise())
	}
	if s, ok := n.rw.(interface{ Sent() int64 }); ok && s.Sent() > 0 {
		line = line.Int64("sent", s.Sent())
	}
	return line
}

// greet hears the helper's Hello and Node.
func (n *node) greet(env Env) error {
	hello, noise, err := n.conn.Greet()
	if err != nil {
		return err
	}
	if len(noise) > 0 {
		env.Log.Debug().Str("node", n.def.Name).Bytes("text", noise).Msg("login shell printed")
	}
	if err := n.sameVersion(hello, env); err != nil {
		return err
	}
	if _, err := n.gate.admit(hello); err != nil {
		return err
	}
	m, err := n.conn.Recv()
	if err == nil {
		m, err = n.gate.admit(m)
	}
	if err != nil {
		return err
	}
	found := m.(*wire.Node) // nothing else is admitted now
	if found.Err != "" {
		return fmt.Errorf("helper: probe: %s", found.Err)
	}
	n.probe, n.identity = found.Probe, found.Probe.Identity
	return nil
}

// sameVersion checks that a helper is this very program or, on a machine of another kind,
// the one that was sent there, of the same release.
func (n *node) sameVersion(hello *wire.Hello, env Env) error {
	want := env.Build
	if s, ok := n.rw.(interface{ Build() string }); ok && s.Build() != "" && want != "" {
		want = s.Build()
	}
	switch {
	case hello.Version != wire.Version || want != "" && hello.Build != want:
		return fmt.Errorf("helper: another version (%s) answered; this is %s", hello.Build, env.Build)
	case want != env.Build && hello.Release != env.Release:
		return fmt.Errorf("helper: another version (%s) answered; this is %s: install both from the same release", hello.Release, env.Release)
	}
	return nil
}

// explain adds to an error of the connection what the stream knows of its end.
func (n *node) explain(err error) error {
	if reason := whyEnded(n.rw); reason != nil {
		return reason
	}
	return err
}

// whyEnded asks a stream why it ended; nil if it does not know.
func whyEnded(rw io.ReadWriteCloser) error {
	if s, ok := rw.(interface{ Why() string }); ok {
		if reason := s.Why(); reason != "" {
			return errors.New(reason)
		}
	}
	return nil
}
