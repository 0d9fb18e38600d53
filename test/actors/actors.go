// Package actors simulates the helpers of hosts in tests, in the test's own process.
package actors

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"remshell/job"
	"remshell/pin"
	"remshell/transport"
	"remshell/wire"
)

// A FakeHelpers is a node.HelperDialer whose helpers do what a test wants. They are at the other ends of pipes, so
// that waiting takes no time. A message that Answer does not answer gets the reply of a host with four idle cores.
type FakeHelpers struct {
	mu       sync.Mutex // guards what follows
	received map[string][]string
	down     map[string]bool
	silent   map[string]bool
	conns    map[string]*wire.Conn // the last connection of each node

	// Answer, if not nil, may reply to a message. It returns true if it has. c is the connection of the
	// node. Each connection calls it on a goroutine of its own.
	Answer   func(c *wire.Conn, node string, m wire.Message) bool
	dials    map[string]int
	dialSets [][]string // the nodes of each call of Dial
}

// New returns a FakeHelpers. play becomes its Answer, and may be nil.
func New(play func(c *wire.Conn, node string, m wire.Message) bool) *FakeHelpers {
	return &FakeHelpers{received: make(map[string][]string), down: make(map[string]bool), conns: make(map[string]*wire.Conn),
		Answer: play, dials: make(map[string]int)}
}

// Dial connects to the simulated helpers of hosts.
func (s *FakeHelpers) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	var names []string
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	s.mu.Lock()
	s.dialSets = append(s.dialSets, names)
	s.mu.Unlock()
	return transport.DialEach(ctx, hosts, s.dial)
}

func (s *FakeHelpers) dial(_ context.Context, host transport.Host) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials[host.Name]++
	if s.down[host.Name] {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	c := wire.NewConn(there, wire.Helper)
	s.conns[host.Name] = c
	go s.serve(host.Name, c)
	return here, nil
}

func (s *FakeHelpers) serve(name string, c *wire.Conn) {
	defer c.Abandon()
	if s.isSilent(name) {
		c.Recv()
		return
	}
	c.SendHello(&wire.Hello{Version: wire.Version})
	var cores []pin.Core
	for cpu := range 4 {
		cores = append(cores, pin.Core{CPUs: []int{cpu}})
	}
	c.Send(&wire.NodeInfo{Probe: job.Probe{Identity: name, Topology: pin.Topology{Cores: cores}}})
	for {
		m, err := c.Recv()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.received[name] = append(s.received[name], wire.NameOf(m))
		s.mu.Unlock()
		if s.Answer != nil && s.Answer(c, name, m) {
			continue
		}
		switch m := m.(type) {
		case *wire.LockDecision:
			c.Send(&wire.DecisionLocked{})
		case *wire.Survey:
			c.Send(&wire.Surveyed{})
		case *wire.Enqueue:
			c.Send(&wire.QueuePosition{Total: 1})
		case *wire.ListLedger:
			c.Send(&wire.LedgerListed{})
		case *wire.Prepare:
			c.Send(&wire.Prepared{Group: m.Group.Name})
		}
	}
}

// Disconnect ends the connection of a node.
func (s *FakeHelpers) Disconnect(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[node].Abandon()
}

// SetSilent makes a node accept connections and send nothing.
func (s *FakeHelpers) SetSilent(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = map[string]bool{node: true}
}

func (s *FakeHelpers) isSilent(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[node]
}

// SetDown makes a node refuse connections, or accept them again.
func (s *FakeHelpers) SetDown(node string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[node] = down
}

// CountReceived returns how many messages of a type a node has received. message is the name of the type.
func (s *FakeHelpers) CountReceived(node, message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.received[node] {
		if m == message {
			n++
		}
	}
	return n
}

// Received returns the names of all messages that a node has received, in order.
func (s *FakeHelpers) Received(node string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received[node])
}

// DialSets returns for each call of Dial the nodes that it was called for.
func (s *FakeHelpers) DialSets() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dialSets)
}

// CountDials returns how many connections to a node were attempted.
func (s *FakeHelpers) CountDials(node string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials[node]
}

// BusyNode is the Surveyed message of a node whose four CPUs another job has claimed.
var BusyNode = &wire.Surveyed{Occupancy: job.Occupancy{Ranks: 4, BoundRanks: 4, BusyCPUs: []int{0, 1, 2, 3}}}

// A HelperMessage makes an example of one type of message that a helper sends. If the message is about a rank, it is
// about rank.
type HelperMessage struct {
	Kind string
	Make func(rank int) wire.Message
}

// HelperMessages returns a HelperMessage for each type of message that a helper sends, including the messages of
// features that the test imports.
func HelperMessages() []HelperMessage {
	all := slices.Clone(coreMessages)
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender != wire.Launcher {
			all = append(all, HelperMessage{k.Name, k.Example})
		}
	}
	return all
}

var coreMessages = []HelperMessage{
	{"Hello", func(int) wire.Message { return &wire.Hello{} }},
	{"NodeInfo", func(int) wire.Message { return &wire.NodeInfo{} }},
	{"DecisionLocked", func(int) wire.Message { return &wire.DecisionLocked{} }},
	{"Surveyed", func(int) wire.Message { return &wire.Surveyed{} }},
	{"QueuePosition", func(int) wire.Message { return &wire.QueuePosition{} }},
	{"LedgerListed", func(int) wire.Message { return &wire.LedgerListed{} }},
	{"JobSignaled", func(int) wire.Message { return &wire.JobSignaled{} }},
	{"Evicted", func(int) wire.Message { return &wire.Evicted{} }},
	{"ControlRequest", func(int) wire.Message {
		return &wire.ControlRequest{ID: "i", Request: job.ControlRequest{Job: "j", Verb: job.VerbStatus}}
	}},
	{"ControlReply", func(int) wire.Message { return &wire.ControlReply{State: job.ReplyDone} }},
	{"MarkWritten", func(int) wire.Message { return &wire.MarkWritten{} }},
	{"MarksRead", func(int) wire.Message { return &wire.MarksRead{} }},
	{"Diagnosed", func(int) wire.Message { return &wire.Diagnosed{} }},
	{"ProbePortOpened", func(int) wire.Message { return &wire.ProbePortOpened{} }},
	{"PeersProbed", func(int) wire.Message { return &wire.PeersProbed{} }},
	{"ClaimsChanged", func(int) wire.Message { return &wire.ClaimsChanged{} }},
	{"Prepared", func(int) wire.Message { return &wire.Prepared{Group: "g"} }},
	{"Refused", func(int) wire.Message { return &wire.Refused{Group: "g"} }},
	{"ClaimConflict", func(int) wire.Message { return &wire.ClaimConflict{Group: "g"} }},
	{"Started", func(rank int) wire.Message { return &wire.Started{Rank: max(rank, 0), PID: 8} }},
	{"Data", func(rank int) wire.Message { return &wire.Data{Rank: rank, Stream: wire.Stdout, Bytes: []byte("x")} }},
	{"Credit", func(rank int) wire.Message { return &wire.Credit{Rank: rank} }},
	{"Exited", func(rank int) wire.Message { return &wire.Exited{Exit: job.Exit{Rank: rank}} }},
	{"PMIReport", func(rank int) wire.Message { return &wire.PMIReport{Rank: rank, Event: wire.PMIAborted} }},
	{"Fence", func(int) wire.Message { return &wire.Fence{ID: "g/0"} }},
	{"RankMapRequest", func(int) wire.Message { return &wire.RankMapRequest{ID: 1, Group: "g"} }},
	{"HelperSignaled", func(int) wire.Message { return &wire.HelperSignaled{Signal: 15} }},
	{"ProcessesGone", func(int) wire.Message { return &wire.ProcessesGone{} }},
	{"Drained", func(rank int) wire.Message { return &wire.Drained{Orphans: []job.OrphanUsage{{Rank: rank}}} }},
	{"AttemptReady", func(int) wire.Message { return &wire.AttemptReady{} }},
	{"Log", func(int) wire.Message { return &wire.Log{Text: "{}"} }},
	{"Ping", func(int) wire.Message { return &wire.Ping{} }},
}
