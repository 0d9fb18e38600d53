package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/trace"
	"remshell/transport"
	"remshell/wire"
)

// A HelperDialer starts helpers on a set of hosts. Each result contains a stream, which is the stdin and stdout of
// one helper. The helper sends the first message. If a stream has a method Why() string, it returns why the stream
// ended. In mpiexec, cli.hostDialer implements HelperDialer, with one transport.Transport for this machine and one
// for all others.
type HelperDialer interface {
	Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result
}

// A Connector connects to helpers and performs the handshake with them.
type Connector struct {
	Dialer       HelperDialer
	Build        string        // identity of this binary; helpers must have the same
	Release      string        // release of this binary; helpers built for another architecture must have the same
	GreetTimeout time.Duration // time limit for the helper's handshake, once its host is reached
	SilenceLimit time.Duration // how long a link may be silent
	Log          zerolog.Logger
	StopTimes    *StopTimes      // times in which mpiexec was stopped
	Topologies   *Topologies     // shares equal topologies; if nil, they are not shared
	Trace        *trace.Recorder // records the time of each step; may be nil
}

// A ConnectResult is the result of connecting to one node.
type ConnectResult struct {
	Index int   // of the node in the set, from 0
	Node  *Node // nil if Err is set
	Err   error
	Took  time.Duration // since Connect was called
}

// Connect connects to a set of nodes with one call of the dialer. It sends a ConnectResult for each node as
// soon as the result is known, and closes the channel at the end. Sending never waits for the receiver.
func (c *Connector) Connect(ctx context.Context, defs []job.NodeDef) <-chan ConnectResult {
	connected := make(chan ConnectResult, len(defs))
	began, slept := time.Now(), c.StopTimes.Total()
	steps := c.beginConnectSteps(defs)
	dialled := c.Dialer.Dial(ctx, toHosts(defs))
	go func() {
		defer close(connected)
		var greeting sync.WaitGroup
		for r := range dialled {
			greeting.Go(func() {
				def := defs[r.Index]
				n, err := c.receiveHello(ctx, def, r, began)
				if err != nil && ctx.Err() == nil && c.StopTimes.Total() > slept {
					n, err = c.ConnectOne(ctx, def)
				}
				steps[r.Index].End(err)
				connected <- ConnectResult{r.Index, n, err, time.Since(began)}
			})
		}
		greeting.Wait()
	}()
	return connected
}

// beginConnectSteps begins a trace step for the connection to each node.
func (c *Connector) beginConnectSteps(defs []job.NodeDef) []trace.Step {
	steps := make([]trace.Step, len(defs))
	for i, def := range defs {
		steps[i] = c.Trace.Begin(trace.Row{Host: def.Name}, trace.Reach)
	}
	return steps
}

// ConnectOne connects to one node. It is used to try again if a connection failed while mpiexec was stopped.
// Such a failure says nothing about the node, because timeouts continue while mpiexec is stopped (rule
// SIG-5).
func (c *Connector) ConnectOne(ctx context.Context, def job.NodeDef) (*Node, error) {
	one := <-c.Connect(ctx, []job.NodeDef{def})
	return one.Node, one.Err
}

// toHosts converts node definitions to hosts of package transport.
func toHosts(defs []job.NodeDef) []transport.Host {
	hosts := make([]transport.Host, len(defs))
	for i, def := range defs {
		hosts[i] = ToHost(def)
	}
	return hosts
}

// ToHost returns the part of a node's definition that package transport needs.
func ToHost(def job.NodeDef) transport.Host {
	return transport.Host{Name: def.Name, Alias: def.Host, Address: def.Address, User: def.User, Port: def.Port,
		Helper: def.HelperPath, Index: def.ID, Local: def.Local}
}

// receiveHello returns the Node for a dialled connection, after the handshake with its helper. If the helper's host
// could not be reached, it returns the error of the dialer.
func (c *Connector) receiveHello(ctx context.Context, def job.NodeDef, dialled transport.Result, start time.Time) (n *Node, err error) {
	defer func() {
		if why := recover(); why != nil {
			if n != nil {
				n.Abandon()
			}
			n, err = nil, transport.NewPanicError(why)
		}
		logPanic(c.Log, def.Name, err)
	}()
	if dialled.Err != nil {
		return nil, dialled.Err
	}
	made := &Node{Def: def, stream: dialled.Stream, conn: wire.NewConn(dialled.Stream, wire.Launcher), validator: NewValidator(def, c.SilenceLimit, time.Now)}
	n = made // returns set n to nil, while the AfterFunc below may still use made
	limit := c.StopTimes.Limit(ctx, c.GreetTimeout, NoAnswerError{c.GreetTimeout})
	defer limit.Stop()
	inTime := context.AfterFunc(limit.Context(), made.Abandon)
	defer inTime()
	greeting := c.Trace.Begin(trace.Row{Host: def.Name}, trace.Greeting)
	err = n.handshake(c)
	greeting.End(err)
	if !inTime() {
		n.Abandon()
		return nil, context.Cause(limit.Context())
	}
	if err != nil {
		n.Abandon()
		return nil, n.violationError(err)
	}
	n.logConnection(c.Log.Info()).Str("took", time.Since(start).Round(time.Millisecond).String()).Msg("reached")
	return n, nil
}

// handshake receives the helper's first two messages, Hello and NodeInfo.
func (n *Node) handshake(c *Connector) error {
	hello, noise, err := n.conn.ReceiveHello()
	if err != nil {
		return err
	}
	if len(noise) > 0 {
		c.Log.Debug().Str("node", n.Name()).Bytes("text", noise).Msg("the login shell of the host printed text")
	}
	if err := n.sameVersion(hello, c); err != nil {
		return err
	}
	if _, err := n.validator.CheckMessage(hello); err != nil {
		return err
	}
	m, err := n.recv()
	if err != nil {
		return err
	}
	found := m.(*wire.NodeInfo) // the validator lets nothing else through now
	if found.Err != "" {
		return fmt.Errorf("helper: probe: %s", found.Err)
	}
	n.Probe = found.Probe
	n.Probe.Topology = c.Topologies.intern(n.Probe.Topology)
	return nil
}

// sameVersion checks that the helper is the same binary as mpiexec. On another architecture, it must be the
// binary of the same release that mpiexec has sent there.
func (n *Node) sameVersion(hello *wire.Hello, c *Connector) error {
	want := c.Build
	if s, ok := n.stream.(interface{ Build() string }); ok && s.Build() != "" && want != "" {
		want = s.Build()
	}
	switch {
	case hello.Version != wire.Version || want != "" && hello.Build != want:
		return fmt.Errorf("helper: the mpiexec on the host has version %s, and this mpiexec has version %s", hello.Build, c.Build)
	case want != c.Build && hello.Release != c.Release:
		return fmt.Errorf("helper: the mpiexec on the host has version %s, and this mpiexec has version %s: install the same release on both", hello.Release, c.Release)
	}
	return nil
}

// logConnection adds details about the connection to a log line, as far as they are known.
func (n *Node) logConnection(line *zerolog.Event) *zerolog.Event {
	line = line.Str("node", n.Name()).Str("named", n.Def.Origin).Int("CPUs", n.Probe.Topology.CountUsableCores())
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
