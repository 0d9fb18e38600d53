/*
Package crowd stands in for the hosts of a large job: as many helpers as it takes in one
process, each behind a pipe on which the real frames go. Nothing is started.

	launch.Run --- wire over a pipe ---> one helper of the crowd: Hello, Node, Surveyed,
	           <------------------------ Prepared, Started, Fence, Exited, Drained

So what a launch costs mpiexec can be seen at 10,000 hosts without having them.
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
	"remshell/pmiserver/spawn"
	"remshell/reach"
	"remshell/timeline"
	"remshell/wire"
)

// Cores is how many each host has.
const Cores = 64

// A Crowd is a launch.Dialer. The zero value has a helper for every host that it is asked for.
type Crowd struct {
	Reached  atomic.Int64 // helpers that were dialled
	Heard    atomic.Int64 // messages to them
	Said     atomic.Int64 // messages of theirs
	Started  atomic.Int64 // ranks
	Exited   atomic.Int64 // ranks
	Drained  atomic.Int64 // helpers that had nothing left
	Departed atomic.Int64 // helpers that heard Bye

	AtEnd func() // is called when the last helper has nothing left, before it says so; nil: nothing is

	// Spawns is how many groups of one rank the job's rank 0 spawns, one after the other, of
	// which each ends at once. Spawned is told of each, in between; nil: it is not.
	Spawns  int
	Spawned func(n int)

	Timeline *timeline.Recorder // of the launch; nil: it has none
}

// patience is for everything that a launch waits for: it may take its time.
const patience = 10 * time.Minute

// Launch runs a job with so many ranks on each of so many hosts to its end. What is said goes
// to errs.
func (c *Crowd) Launch(ctx context.Context, hosts, ranks int, errs io.Writer) error {
	signals := make(chan os.Signal)
	defer close(signals)
	printer := stdio.Stderr(errs)
	req := request(hosts, ranks)
	if c.Spawns > 0 { // there is a slot left on each host
		for i := range req.Nodes {
			req.Nodes[i].Slots++
		}
		req.Apps[0].PerNode = ranks
	}
	result, err := launch.Run(ctx, req, launch.Env{Out: stdio.Stdout(io.Discard), Err: printer, Env: reserve.Env{
		Connector: node.Connector{Dialer: c, Greet: patience, Timeline: c.Timeline}, Terms: reserve.Terms{Umask: -1},
		Signals: signals, Probe: patience, Say: func(text string) { fmt.Fprintln(printer, text) },
	}})
	if err == nil && (result.Code != 0 || c.Spawns == 0 && len(result.Exits) != hosts*ranks) {
		err = fmt.Errorf("code %d, and %d of %d ranks have ended", result.Code, len(result.Exits), hosts*ranks)
	}
	return err
}

func request(hosts, ranks int) job.Request {
	req := job.Request{
		Job:    "crowd",
		Apps:   []job.App{{N: hosts * ranks, Argv: []string{"./solver", "-i", "case7"}, Dir: "/home/user/case"}},
		Limits: job.Limits{Grace: time.Second, Start: patience},
		Base:   job.Env{Set: []string{"HOME=/home/user", "LANG=C.UTF-8", "OMP_NUM_THREADS=1", "USER=user"}},
	}
	for i := range hosts {
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: fmt.Sprintf("n%05d", i), Slots: ranks, Origin: "hosts.txt:1"})
	}
	return req
}

// Dial reaches the helpers of hosts.
func (c *Crowd) Dial(ctx context.Context, hosts []reach.Host) <-chan reach.Result {
	return reach.Each(ctx, hosts, c.dial)
}

func (c *Crowd) dial(_ context.Context, host reach.Host) (io.ReadWriteCloser, error) {
	ours, theirs := net.Pipe()
	c.Reached.Add(1)
	go func() {
		h := helper{Crowd: c, name: host.Name, conn: wire.NewConn(theirs, wire.Helper), groups: make(map[string]part)}
		defer h.conn.Close()
		h.serve()
	}()
	return ours, nil
}

// A helper is that of one host.
type helper struct {
	*Crowd
	name   string
	conn   *wire.Conn
	groups map[string]part
	spawns int // that were asked for
}

// A part is the ranks of a group that a host has.
type part struct {
	group wire.Group
	ranks []int // as they are numbered in the job
}

func (h *helper) say(m wire.Message) {
	h.Said.Add(1)
	h.conn.Send(m)
}

// serve is the life of a helper.
func (h *helper) serve() {
	h.Said.Add(1)
	h.conn.Announce(&wire.Hello{Version: wire.Version, Host: h.name, PID: 1})
	h.say(&wire.Node{Probe: probe(h.name)})
	for {
		m, err := h.conn.Recv()
		if err != nil {
			return
		}
		h.Heard.Add(1)
		if h.answer(m) {
			return
		}
	}
}

// answer answers one message, and reports whether it was the last one.
func (h *helper) answer(m wire.Message) (over bool) {
	switch m := m.(type) {
	case *wire.Gate:
		h.say(&wire.Gated{})
	case *wire.Survey:
		h.say(&wire.Surveyed{Load: [3]float64{1, 1, 1}})
	case *wire.Prepare:
		p := part{group: m.Group}
		for _, r := range m.Ranks {
			p.ranks = append(p.ranks, m.Group.First+r.Rank)
		}
		h.groups[m.Group.Name] = p
		h.say(&wire.Prepared{Group: m.Group.Name})
	case *wire.Start:
		p := h.groups[m.Group]
		for i, rank := range p.ranks {
			h.Started.Add(1)
			h.say(&wire.Started{Rank: rank, PID: 1000 + i})
		}
		if p.group.Nodes == 1 {
			h.proceed(m.Group)
		} else {
			h.say(&wire.Fence{ID: m.Group + "/0"}) // what ranks exchange, others measure
		}
	case *wire.Fenced:
		h.proceed(strings.TrimSuffix(m.ID, "/0"))
	case *wire.Spawned:
		if m.Err != "" {
			panic(m.Err)
		}
		if h.Spawned != nil {
			h.Spawned(h.spawns)
		}
		h.proceed("crowd")
	case *wire.Release:
		delete(h.groups, m.Group)
	case *wire.End:
		if h.Drained.Add(1) == h.Reached.Load() && h.AtEnd != nil {
			h.AtEnd()
		}
		h.say(&wire.Drained{})
	case *wire.Bye:
		h.Departed.Add(1)
		return true
	}
	return false
}

// proceed is what ranks of a group do when they have met: that which spawns asks for the next
// group, unless there were enough; the others end.
func (h *helper) proceed(group string) {
	p := h.groups[group]
	if p.ranks[0] == 0 && h.spawns < h.Spawns {
		h.spawns++
		h.say(&wire.Spawn{ID: h.spawns, Request: spawn.Request{Group: group,
			Commands: []spawn.Command{{Argv: []string{"./child"}, Count: 1}}}})
		return
	}
	delete(h.groups, group)
	for _, rank := range p.ranks {
		h.Exited.Add(1)
		h.say(&wire.Exited{Exit: job.Exit{Rank: rank, PMI: job.PMIFinalized,
			Usage: job.Usage{Wall: time.Second, User: time.Second, MaxRSS: 1 << 20}}})
	}
}

// probe is what each host has: 64 cores in two packages.
func probe(name string) job.Probe {
	return job.Probe{Hostname: name, Arch: "amd64", Kernel: "Linux 6.1.0", Identity: "machine-" + name, Model: "a CPU",
		Topology: topology, Memory: job.Memory{Total: 1 << 38, Available: 1 << 37}}
}

var topology = func() (t pin.Topology) {
	for i := range Cores {
		t.Cores = append(t.Cores, pin.Core{CPUs: []int{i}, Place: pin.Place{Package: i / 32, NUMA: i / 16, L3: i / 8, L2: i}})
	}
	return t
}()
