/*
Package crowd simulates the hosts of a large job for tests. Each host is a helper in the test's own process, behind
a pipe with the real frames. No process is started.

	launch.Run --- wire over a pipe ---> one helper of the crowd: Hello, Node, Surveyed,
	           <------------------------ Prepared, Started, Fence, Exited, Drained

So a test can measure what a launch on 10,000 hosts costs mpiexec.
*/
package crowd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/pin"
	"remshell/trace"
	"remshell/transport"
	"remshell/wire"
)

// CoresPerHost is the number of cores of each host.
const CoresPerHost = 64

// A FakeHosts is a node.HelperDialer with a simulated helper for every host that is dialed. The zero value is ready
// to use.
type FakeHosts struct {
	Dialed   atomic.Int64 // helpers that were dialed
	Received atomic.Int64 // messages to them
	Sent     atomic.Int64 // messages from them
	Started  atomic.Int64 // ranks
	Exited   atomic.Int64 // ranks
	Drained  atomic.Int64 // helpers that have sent Drained
	Closed   atomic.Int64 // helpers that received Bye

	AtEnd func() // if not nil, called before the last helper sends Drained

	// Spawn, if not nil, returns the request of rank 0 of the job for group n, from 1: one rank, which ends at once. Spawn
	// returns nil after the last group. Requests are sent one after the other, each after the reply to the one before.
	Spawn func(n int, parent string) wire.Message
	// IsSpawnReply reports whether a message replies to such a request.
	IsSpawnReply func(wire.Message) bool

	Timeline *trace.Recorder // of the launch; may be nil
}

// timeout is the limit for each step of a launch. It is long, since a large launch may be slow.
const timeout = 10 * time.Minute

// Launch runs a job to its end, with ranks ranks on each of hosts hosts. Messages for the user go to errs. It returns
// an error if the job fails or a rank does not report its end.
func (c *FakeHosts) Launch(ctx context.Context, hosts, ranks int, errs io.Writer) error {
	signals := make(chan os.Signal)
	defer close(signals)
	printer := stdio.Stderr(errs)
	req := request(hosts, ranks)
	if c.Spawn != nil { // there is a slot left on each host
		for i := range req.Nodes {
			req.Nodes[i].Slots++
		}
		req.Apps[0].PerNode = ranks
	}
	result, err := launch.Run(ctx, req, launch.Env{Out: stdio.Stdout(io.Discard), Err: printer, Env: reserve.Env{
		Connector: node.Connector{Dialer: c, GreetTimeout: timeout, Trace: c.Timeline}, RankOptions: reserve.RankOptions{Umask: -1},
		Signals: signals, ProbeTimeout: timeout, Report: func(text string) { fmt.Fprintln(printer, text) },
	}})
	if err == nil && (result.Code != 0 || c.Spawn == nil && len(result.Exits) != hosts*ranks) {
		err = fmt.Errorf("code %d, and %d of %d ranks have ended", result.Code, len(result.Exits), hosts*ranks)
	}
	return err
}

func request(hosts, ranks int) job.Request {
	req := job.Request{
		Job:        "crowd",
		Apps:       []job.App{{N: hosts * ranks, Argv: []string{"./solver", "-i", "case7"}, Dir: "/home/user/case"}},
		TimeLimits: job.TimeLimits{Grace: time.Second, Start: timeout},
		BaseEnv:    job.Env{Set: []string{"HOME=/home/user", "LANG=C.UTF-8", "OMP_NUM_THREADS=1", "USER=user"}},
	}
	for i := range hosts {
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: fmt.Sprintf("n%05d", i), Slots: ranks, Origin: "hosts.txt:1"})
	}
	return req
}

// Dial implements node.HelperDialer. It starts a simulated helper for each host.
func (c *FakeHosts) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, c.dial)
}

func (c *FakeHosts) dial(_ context.Context, host transport.Host) (io.ReadWriteCloser, error) {
	ours, theirs := net.Pipe()
	c.Dialed.Add(1)
	go func() {
		h := helper{FakeHosts: c, name: host.Name, conn: wire.NewConn(theirs, wire.Helper), groups: make(map[string]hostGroup)}
		defer h.conn.Close()
		h.serve()
	}()
	return ours, nil
}

// A helper simulates the helper of one host.
type helper struct {
	*FakeHosts
	name   string
	conn   *wire.Conn
	groups map[string]hostGroup
	spawns int // number of spawn requests sent
}

// A hostGroup has the ranks of a group that are on one host.
type hostGroup struct {
	group wire.Group
	ranks []int // as they are numbered in the job
}

func (h *helper) send(m wire.Message) {
	h.Sent.Add(1)
	h.conn.Send(m)
}

// serve sends the greeting, and then replies to messages until Bye or the end of the connection.
func (h *helper) serve() {
	h.Sent.Add(1)
	h.conn.SendHello(&wire.Hello{Version: wire.Version, Host: h.name, PID: 1})
	h.send(&wire.NodeInfo{Probe: probe(h.name)})
	for {
		m, err := h.conn.Recv()
		if err != nil {
			return
		}
		h.Received.Add(1)
		if h.reply(m) {
			return
		}
	}
}

// reply replies to one message. It returns true if the message was Bye, the last one.
func (h *helper) reply(m wire.Message) (over bool) {
	switch m := m.(type) {
	case *wire.LockDecision:
		h.send(&wire.DecisionLocked{})
	case *wire.Survey:
		h.send(&wire.Surveyed{Load: [3]float64{1, 1, 1}})
	case *wire.Prepare:
		p := hostGroup{group: m.Group}
		for _, r := range m.Ranks {
			p.ranks = append(p.ranks, m.Group.First+r.Rank)
		}
		h.groups[m.Group.Name] = p
		h.send(&wire.Prepared{Group: m.Group.Name})
	case *wire.Start:
		p := h.groups[m.Group]
		for i, rank := range p.ranks {
			h.Started.Add(1)
			h.send(&wire.Started{Rank: rank, PID: 1000 + i})
		}
		if p.group.NodeCount == 1 {
			h.afterFence(m.Group)
		} else {
			h.send(&wire.Fence{ID: m.Group + "/0"}) // without data: other tests measure the exchange
		}
	case *wire.Fenced:
		h.afterFence(strings.TrimSuffix(m.ID, "/0"))
	case *wire.CancelPrepare:
		delete(h.groups, m.Group)
	case *wire.EndJob:
		if h.Drained.Add(1) == h.Dialed.Load() && h.AtEnd != nil {
			h.AtEnd()
		}
		h.send(&wire.Drained{})
	case *wire.Bye:
		h.Closed.Add(1)
		return true
	default:
		if h.IsSpawnReply != nil && h.IsSpawnReply(m) {
			h.afterFence("crowd")
		}
	}
	return false
}

// afterFence simulates the ranks of a group after their fence. If the group has rank 0, it sends the next spawn
// request. If there is none, the ranks exit.
func (h *helper) afterFence(group string) {
	p := h.groups[group]
	if p.ranks[0] == 0 && h.Spawn != nil {
		h.spawns++
		if request := h.Spawn(h.spawns, group); request != nil {
			h.send(request)
			return
		}
	}
	delete(h.groups, group)
	for _, rank := range p.ranks {
		h.Exited.Add(1)
		h.send(&wire.Exited{Exit: job.Exit{Rank: rank, PMI: job.PMIFinalized,
			Usage: job.Usage{Wall: time.Second, User: time.Second, MaxRSS: 1 << 20}}})
	}
}

// probe returns the probe of a simulated host: 64 cores in two packages.
func probe(name string) job.Probe {
	return job.Probe{Hostname: name, Arch: "amd64", Kernel: "Linux 6.1.0", Identity: "machine-" + name, Model: "a CPU",
		Topology: topology, Memory: job.Memory{Total: 1 << 38, Available: 1 << 37}}
}

var topology = func() (t pin.Topology) {
	for i := range CoresPerHost {
		t.Cores = append(t.Cores, pin.Core{CPUs: []int{i}, CoreLocation: pin.CoreLocation{Package: i / 32, NUMA: i / 16, L3: i / 8, L2: i}})
	}
	return t
}()
