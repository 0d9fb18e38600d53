package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/reach"
	"remshell/timeline"
	"remshell/wire"
)

// A Dialer reaches the helpers of a set of hosts, as reach.Way does: stdin and stdout of each as
// one stream, on which the helper speaks first. If a stream also has a method Why() string, that
// tells why it ended.
type Dialer interface {
	Dial(ctx context.Context, hosts []reach.Host) <-chan reach.Result
}

// A Connector connects to helpers.
type Connector struct {
	Dialer     Dialer
	Build      string        // identity of this binary; helpers must be the same
	Release    string        // its version for people; helpers on other machines must have the same
	Greet      time.Duration // for a helper's first words, once its host is reached
	Silence    time.Duration // how long a link may be dead
	Log        zerolog.Logger
	Pauses     *Pauses            // when we were stopped
	Topologies *Topologies        // what nodes have; nil: each its own
	Timeline   *timeline.Recorder // notes what takes how long; nil: nobody does
}

// A Connected is what came of one node of a set.
type Connected struct {
	At   int   // of the node in the set, from 0
	Node *Node // nil with an error
	Err  error
	Took time.Duration // since the set was begun
}

// Connect connects to a set of nodes by one call of the dialer, and sends what came of each as
// soon as that is known: one Connected for each, and then the channel is closed. It waits for
// nobody who reads.
func (c *Connector) Connect(ctx context.Context, defs []job.NodeDef) <-chan Connected {
	connected := make(chan Connected, len(defs))
	began, slept := time.Now(), c.Pauses.Sum()
	reaching := c.reaching(defs)
	dialled := c.Dialer.Dial(ctx, hostsOf(defs))
	go func() {
		defer close(connected)
		var greeting sync.WaitGroup
		for r := range dialled {
			greeting.Go(func() {
				def := defs[r.At]
				n, err := c.greet(ctx, def, r, began)
				if err != nil && ctx.Err() == nil && c.Pauses.Sum() > slept {
					n, err = c.ConnectOne(ctx, def)
				}
				reaching[r.At].End(err)
				connected <- Connected{r.At, n, err, time.Since(began)}
			})
		}
		greeting.Wait()
	}()
	return connected
}

// reaching notes, of all nodes of a set, that they are being connected to.
func (c *Connector) reaching(defs []job.NodeDef) []timeline.Step {
	steps := make([]timeline.Step, len(defs))
	for i, def := range defs {
		steps[i] = c.Timeline.Begin(timeline.Row{Host: def.Name}, timeline.Reach)
	}
	return steps
}

// ConnectOne connects to one node. Connect, too, does so for one that failed when we were
// stopped, which says nothing of it: what guards it has run on, there and here (SIG-5).
func (c *Connector) ConnectOne(ctx context.Context, def job.NodeDef) (*Node, error) {
	one := <-c.Connect(ctx, []job.NodeDef{def})
	return one.Node, one.Err
}

// hostsOf are candidates as those see them who reach hosts.
func hostsOf(defs []job.NodeDef) []reach.Host {
	hosts := make([]reach.Host, len(defs))
	for i, def := range defs {
		hosts[i] = HostOf(def)
	}
	return hosts
}

// HostOf is all of a candidate that the way there may depend on.
func HostOf(def job.NodeDef) reach.Host {
	return reach.Host{Name: def.Name, Alias: def.Host, Address: def.Address, User: def.User, Port: def.Port,
		Helper: def.Helper, Index: def.ID, Local: def.Local}
}

// greet takes the first words of a helper, if its host was reached.
func (c *Connector) greet(ctx context.Context, def job.NodeDef, dialled reach.Result, began time.Time) (n *Node, err error) {
	defer func() {
		if why := recover(); why != nil {
			if n != nil {
				n.Abandon()
			}
			n, err = nil, reach.Crashed(why)
		}
		logCrash(c.Log, def.Name, err)
	}()
	if dialled.Err != nil {
		return nil, dialled.Err
	}
	made := &Node{Def: def, stream: dialled.Stream, conn: wire.NewConn(dialled.Stream, wire.Launcher), validator: newValidator(def, c.Silence)}
	n = made // which a return forgets, while what abandons it may still run
	limit := c.Pauses.Limit(ctx, c.Greet, Silence{c.Greet})
	defer limit.Stop()
	inTime := context.AfterFunc(limit.Context(), made.Abandon)
	defer inTime()
	greeting := c.Timeline.Begin(timeline.Row{Host: def.Name}, timeline.Greeting)
	err = n.handshake(c)
	greeting.End(err)
	if !inTime() {
		n.Abandon()
		return nil, context.Cause(limit.Context())
	}
	if err != nil {
		n.Abandon()
		return nil, n.unfit(err)
	}
	n.describe(c.Log.Info()).Str("took", time.Since(began).Round(time.Millisecond).String()).Msg("reached")
	return n, nil
}

// handshake hears the helper's Hello and Node.
func (n *Node) handshake(c *Connector) error {
	hello, noise, err := n.conn.Greet()
	if err != nil {
		return err
	}
	if len(noise) > 0 {
		c.Log.Debug().Str("node", n.Name()).Bytes("text", noise).Msg("login shell printed")
	}
	if err := n.sameVersion(hello, c); err != nil {
		return err
	}
	if _, err := n.validator.admit(hello); err != nil {
		return err
	}
	m, err := n.recv()
	if err != nil {
		return err
	}
	found := m.(*wire.Node) // nothing else is admitted now
	if found.Err != "" {
		return fmt.Errorf("helper: probe: %s", found.Err)
	}
	n.Probe = found.Probe
	n.Probe.Topology = c.Topologies.shared(n.Probe.Topology)
	return nil
}

// sameVersion checks that a helper is this very program or, on a machine of another kind,
// the one that was sent there, of the same release.
func (n *Node) sameVersion(hello *wire.Hello, c *Connector) error {
	want := c.Build
	if s, ok := n.stream.(interface{ Build() string }); ok && s.Build() != "" && want != "" {
		want = s.Build()
	}
	switch {
	case hello.Version != wire.Version || want != "" && hello.Build != want:
		return fmt.Errorf("helper: another version (%s) answered; this is %s", hello.Build, c.Build)
	case want != c.Build && hello.Release != c.Release:
		return fmt.Errorf("helper: another version (%s) answered; this is %s: install both from the same release", hello.Release, c.Release)
	}
	return nil
}

// describe adds to a line of the log how the node was reached, as far as its stream
// tells.
func (n *Node) describe(line *zerolog.Event) *zerolog.Event {
	line = line.Str("node", n.Name()).Str("named", n.Def.Origin).Int("CPUs", n.Probe.Topology.Units())
	if s, ok := n.stream.(interface{ Source() string }); ok {
		line = line.Str("program", s.Source())
	}
	if noise := n.Noise(); len(noise) > 0 {
		line = line.Bytes("login shell printed", noise)
	}
	if sent := n.Sent(); sent > 0 {
		line = line.Int64("sent", sent)
	}
	return line
}
