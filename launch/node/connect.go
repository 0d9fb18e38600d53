package node

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/wire"
)

// A Dialer reaches the helper of one node: its stdin and stdout as one stream, on
// which the helper speaks first. If the stream also has a method Why() string, that
// tells why it ended.
type Dialer interface {
	Dial(ctx context.Context, node job.NodeDef) (io.ReadWriteCloser, error)
}

// A Connector connects to helpers.
type Connector struct {
	Dialer  Dialer
	Build   string        // identity of this binary; helpers must be the same
	Release string        // its version for people; helpers on other machines must have the same
	Greet   time.Duration // for a helper's first words, once its host is reached
	Silence time.Duration // how long a link may be dead
	Log     zerolog.Logger
	Pauses  *Pauses // when we were stopped
}

// Connect connects to one node. An attempt that failed when we were stopped says nothing of
// the node: what guards it has run on, there and here (SIG-5).
func (c *Connector) Connect(ctx context.Context, def job.NodeDef) (*Node, error) {
	for {
		slept := c.Pauses.Sum()
		n, err := c.tryOnce(ctx, def)
		if err == nil || ctx.Err() != nil || c.Pauses.Sum() == slept {
			return n, err
		}
	}
}

// tryOnce connects to one node and takes its helper's first words.
func (c *Connector) tryOnce(ctx context.Context, def job.NodeDef) (n *Node, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = crashed(c.Log, def.Name, why)
			if n != nil {
				n.Abandon()
			}
			n = nil
		}
	}()
	began := time.Now()
	stream, err := c.Dialer.Dial(ctx, def)
	if err != nil {
		return nil, err
	}
	n = &Node{Def: def, stream: stream, conn: wire.NewConn(stream, wire.Launcher), gate: newGate(def, c.Silence)}
	late := c.Pauses.After(c.Greet, func() { n.Abandon() })
	stop := context.AfterFunc(ctx, func() { n.Abandon() })
	defer stop()
	err = n.handshake(c)
	if !late.Stop() {
		n.Abandon()
		return nil, Silence{c.Greet}
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
	if _, err := n.gate.admit(hello); err != nil {
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
	if s, ok := n.stream.(interface{ Way() string }); ok {
		line = line.Str("program", s.Way())
	}
	if noise := n.Noise(); len(noise) > 0 {
		line = line.Bytes("login shell printed", noise)
	}
	if sent := n.Sent(); sent > 0 {
		line = line.Int64("sent", sent)
	}
	return line
}
