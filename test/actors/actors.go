// Package actors plays the helpers of hosts in tests, in the test's own process.
package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"remshell/job"
	"remshell/limit"
	"remshell/pin"
	"remshell/pmiserver/spawn"
	"remshell/reach"
	"remshell/wire"
)

// A Cast is helpers that do what a test wants, at the other ends of pipes, so that waiting
// takes no time. What a node has no word for it answers as one of four idle cores would.
type Cast struct {
	mu    sync.Mutex // guards what follows
	heard map[string][]string
	down  map[string]bool
	mute  map[string]bool
	conns map[string]*wire.Conn // the last one of each node

	// Play answers a message itself if it says so. It is called with the number of the
	// node's connection, from 1, by one goroutine for each.
	Play  func(c *wire.Conn, node string, m wire.Message) bool
	dials map[string]int
	sets  [][]string // that were dialled
}

// New assembles a cast.
func New(play func(c *wire.Conn, node string, m wire.Message) bool) *Cast {
	return &Cast{heard: make(map[string][]string), down: make(map[string]bool), conns: make(map[string]*wire.Conn),
		Play: play, dials: make(map[string]int)}
}

// Dial connects to the helpers of nodes.
func (s *Cast) Dial(ctx context.Context, hosts []reach.Host) <-chan reach.Result {
	var names []string
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	s.mu.Lock()
	s.sets = append(s.sets, names)
	s.mu.Unlock()
	return reach.Each(ctx, hosts, s.dial)
}

func (s *Cast) dial(_ context.Context, host reach.Host) (io.ReadWriteCloser, error) {
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

func (s *Cast) serve(name string, c *wire.Conn) {
	defer c.Abandon()
	if s.isMute(name) {
		c.Recv()
		return
	}
	c.Announce(&wire.Hello{Version: wire.Version})
	var cores []pin.Core
	for cpu := range 4 {
		cores = append(cores, pin.Core{CPUs: []int{cpu}})
	}
	c.Send(&wire.Node{Probe: job.Probe{Identity: name, Topology: pin.Topology{Cores: cores}}})
	for {
		m, err := c.Recv()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.heard[name] = append(s.heard[name], strings.TrimPrefix(fmt.Sprintf("%T", m), "*wire."))
		s.mu.Unlock()
		if s.Play != nil && s.Play(c, name, m) {
			continue
		}
		switch m := m.(type) {
		case *wire.Gate:
			c.Send(&wire.Gated{})
		case *wire.Survey:
			c.Send(&wire.Surveyed{})
		case *wire.Enqueue:
			c.Send(&wire.Queued{Total: 1})
		case *wire.List:
			c.Send(&wire.Listed{})
		case *wire.Prepare:
			c.Send(&wire.Prepared{Group: m.Group.Name})
		}
	}
}

// Lose ends the connection of a node.
func (s *Cast) Lose(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[node].Abandon()
}

// SetMute has a node take connections and say nothing.
func (s *Cast) SetMute(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = map[string]bool{node: true}
}

func (s *Cast) isMute(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mute[node]
}

// SetDown has a node refuse connections, or not.
func (s *Cast) SetDown(node string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[node] = down
}

// Count is how often a node was told something.
func (s *Cast) Count(node, message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.heard[node] {
		if m == message {
			n++
		}
	}
	return n
}

// Heard is what a node was told, as the names of messages.
func (s *Cast) Heard(node string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard[node])
}

// Sets are the nodes that were dialled with one call, each time.
func (s *Cast) Sets() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sets)
}

// Dialed is how often a node was connected to.
func (s *Cast) Dialed(node string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials[node]
}

// Busy is a node of which another job has all.
var Busy = &wire.Surveyed{Use: job.Use{Procs: 4, Seated: 4, Busy: []int{0, 1, 2, 3}}}

// Sayings make each kind that a helper sends, for a rank where it names one.
var Sayings = []struct {
	Kind string
	Make func(rank int) wire.Message
}{
	{"Hello", func(int) wire.Message { return &wire.Hello{} }},
	{"Node", func(int) wire.Message { return &wire.Node{} }},
	{"Gated", func(int) wire.Message { return &wire.Gated{} }},
	{"Surveyed", func(int) wire.Message { return &wire.Surveyed{} }},
	{"Queued", func(int) wire.Message { return &wire.Queued{} }},
	{"Listed", func(int) wire.Message { return &wire.Listed{} }},
	{"Alerted", func(int) wire.Message { return &wire.Alerted{} }},
	{"Evicted", func(int) wire.Message { return &wire.Evicted{} }},
	{"Ask", func(int) wire.Message { return &wire.Ask{ID: "i", Ask: job.Ask{Job: "j", Verb: job.AskStatus}} }},
	{"Answer", func(int) wire.Message { return &wire.Answer{State: job.AskDone} }},
	{"Laid", func(int) wire.Message { return &wire.Laid{} }},
	{"Sought", func(int) wire.Message { return &wire.Sought{} }},
	{"Examined", func(int) wire.Message { return &wire.Examined{} }},
	{"Listening", func(int) wire.Message { return &wire.Listening{} }},
	{"PeersProbed", func(int) wire.Message { return &wire.PeersProbed{} }},
	{"Changed", func(int) wire.Message { return &wire.Changed{} }},
	{"Prepared", func(int) wire.Message { return &wire.Prepared{Group: "g"} }},
	{"Refused", func(int) wire.Message { return &wire.Refused{Group: "g"} }},
	{"Taken", func(int) wire.Message { return &wire.Taken{Group: "g"} }},
	{"Started", func(rank int) wire.Message { return &wire.Started{Rank: max(rank, 0), PID: 8} }},
	{"Data", func(rank int) wire.Message { return &wire.Data{Rank: rank, Stream: wire.Stdout, Bytes: []byte("x")} }},
	{"Credit", func(rank int) wire.Message { return &wire.Credit{Rank: rank} }},
	{"Exited", func(rank int) wire.Message { return &wire.Exited{Exit: job.Exit{Rank: rank}} }},
	{"Sampled", func(rank int) wire.Message { return &wire.Sampled{Ranks: []job.RankSample{{Rank: rank}}} }},
	{"PMI", func(rank int) wire.Message { return &wire.PMI{Rank: rank, Event: wire.PMIAborted} }},
	{"Trace", func(rank int) wire.Message { return &wire.Trace{Rank: rank} }},
	{"Fence", func(int) wire.Message { return &wire.Fence{ID: "g/0"} }},
	{"Name", func(int) wire.Message { return &wire.Name{ID: 1, Op: wire.Lookup} }},
	{"Spawn", func(rank int) wire.Message {
		return &wire.Spawn{ID: 1, Request: spawn.Request{Group: "g", Rank: rank}}
	}},
	{"Peers", func(int) wire.Message { return &wire.Peers{ID: 1, Group: "g"} }},
	{"Fetch", func(int) wire.Message { return &wire.Fetch{ID: 1, Group: "g"} }},
	{"Notify", func(rank int) wire.Message { return &wire.Notify{ID: 1, Group: "g", Rank: max(rank, 0)} }},
	{"Utter", func(rank int) wire.Message { return &wire.Utter{ID: 1, Rank: max(rank, 0)} }},
	{"Fetched", func(int) wire.Message { return &wire.Fetched{ID: 1} }},
	{"States", func(rank int) wire.Message { return &wire.States{Ranks: []job.RankState{{Rank: rank}}} }},
	{"Caught", func(int) wire.Message { return &wire.Caught{Signal: 15} }},
	{"Exceeded", func(rank int) wire.Message {
		return &wire.Exceeded{Rank: rank, Bound: job.Bound{Resource: limit.RankMem, Most: 1}, Used: 2}
	}},
	{"Emptied", func(int) wire.Message { return &wire.Emptied{} }},
	{"Cleaned", func(rank int) wire.Message {
		return &wire.Cleaned{Remnants: []job.Remnant{{Kind: job.SysVShm, ID: "1", Rank: rank}}}
	}},
	{"Drained", func(rank int) wire.Message { return &wire.Drained{Orphans: []job.Orphan{{Rank: rank}}} }},
	{"Renewed", func(int) wire.Message { return &wire.Renewed{} }},
	{"Wanted", func(int) wire.Message { return &wire.Wanted{Parcels: []int{0}} }},
	{"Took", func(int) wire.Message { return &wire.Took{} }},
	{"Staged", func(int) wire.Message { return &wire.Staged{Reason: "full"} }},
	{"Log", func(int) wire.Message { return &wire.Log{Text: "{}"} }},
	{"Ping", func(int) wire.Message { return &wire.Ping{} }},
}
