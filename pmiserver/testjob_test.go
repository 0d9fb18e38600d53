package pmiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/spawn"
	"remshell/pmiserver/transcript"
	"remshell/test/pmitest"
)

// A testJob is a job in a test: servers, a fence coordinator, and the ranks' ends of connections.
type testJob struct {
	job         transcript.Job
	coordinator *pmitest.FenceCoordinator
	names       *pmiserver.NameTable
	port        *pmiserver.Listener
	all         sync.WaitGroup
	groups      [][]*testRank // the first group, then the spawned ones

	mu      sync.Mutex // guards the fields below
	servers []*pmiserver.Server
	spawns  []spawning // open spawn requests
}

// A testRank is one rank's end of its connection.
type testRank struct {
	conn   net.Conn
	server *pmiserver.Server

	mu     sync.Mutex // guards the fields below
	got    string     // bytes received, not yet compared
	events []string   // events reported, not yet compared
}

func (pl *testRank) event(word string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.events = append(pl.events, word)
}

// read collects the bytes that the rank receives.
func (pl *testRank) read() {
	buf := make([]byte, 1000)
	for {
		n, err := pl.conn.Read(buf)
		pl.mu.Lock()
		pl.got += string(buf[:n])
		pl.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func newTestJob(job transcript.Job) *testJob {
	p := &testJob{job: job, coordinator: pmitest.NewFenceCoordinator(), names: &pmiserver.NameTable{}, port: &pmiserver.Listener{}}
	nodes := job.Nodes
	if nodes == nil {
		nodes = make([]int, job.Size)
	}
	info := pmiserver.Info{Name: job.Name, Size: job.Size, Universe: job.Universe, Mapping: job.Mapping}
	info.AppNum = func(rank int) int {
		if job.Apps == nil {
			return 0
		}
		return job.Apps[rank]
	}
	p.add(info, nodes)
	return p
}

// ranksOf lists the ranks of a node.
func ranksOf(nodes []int, node int) (ranks []int) {
	for rank, n := range nodes {
		if n == node {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// add starts the servers of a group, and connects its ranks.
func (p *testJob) add(info pmiserver.Info, nodes []int) {
	group := make([]*testRank, info.Size)
	for rank := range group {
		group[rank] = &testRank{}
	}
	p.groups = append(p.groups, group)
	used := slices.Compact(slices.Sorted(slices.Values(nodes)))
	p.coordinator.AddGroup(info.Name, used, nodes)
	for _, n := range used {
		info.Ranks = ranksOf(nodes, n)
		var otherNodes fence.Exchanger
		if len(used) > 1 {
			otherNodes = p.coordinator.Node(n)
		}
		s := pmiserver.New(info, otherNodes)
		p.supervise(s, info, n, nodes, group)
		p.mu.Lock()
		p.servers = append(p.servers, s)
		p.mu.Unlock()
		for _, rank := range info.Ranks {
			group[rank].server = s
		}
		p.admit(s, info.Ranks, group)
	}
}

// admit connects the ranks of a server, by descriptor or listener as the job says.
func (p *testJob) admit(s *pmiserver.Server, ranks []int, group []*testRank) {
	serve := func(r int, conn net.Conn) error { return s.Serve(context.Background(), r, conn) }
	switch {
	case p.job.Singleton && s == p.servers[0]:
		serve = func(r int, conn net.Conn) error {
			relay, ours := net.Pipe()
			p.all.Go(func() { pmiserver.RelaySingleton(conn, relay, p.job.Name) })
			return s.Serve(context.Background(), r, ours)
		}
	case p.job.IDs != nil && s == p.servers[0]:
		serve = func(_ int, conn net.Conn) error { return p.port.Serve(context.Background(), conn) }
		for _, r := range ranks {
			p.port.NewID = func() int { return p.job.IDs[r] }
			p.port.ExpectRank(s, r)
		}
		for len(group) < p.job.Conns {
			ranks, group = append(ranks, len(group)), append(group, &testRank{server: s})
		}
		p.groups[0] = group
	}
	for _, r := range ranks {
		mine, theirs := net.Pipe()
		pl := group[r]
		pl.conn = mine
		p.all.Go(func() {
			err := serve(r, theirs)
			theirs.Close()
			pl.event(ending(err))
		})
		p.all.Go(pl.read)
	}
}

// supervise sets the server's functions so that its reports become events of the ranks.
func (p *testJob) supervise(s *pmiserver.Server, info pmiserver.Info, node int, nodes []int, group []*testRank) {
	s.Names = p.names
	if p.job.Hosts != nil {
		s.Hosts = func(context.Context) ([]string, []int, error) { return p.job.Hosts, nodes, nil }
	}
	if p.job.Spawned != nil {
		s.Spawner = p
	}
	s.Abort = func(rank, code int, msg string) {
		group[rank].event(strings.TrimSpace(fmt.Sprintf("KILL(%d) %s", code, msg)))
		p.coordinator.Fail(errors.New("aborted"))
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, other := range p.servers {
			other.Freeze()
		}
	}
	s.Broken = func(err error) {
		var stuck *fence.StuckError
		if !errors.As(err, &stuck) {
			return
		}
		for _, r := range stuck.Waiting {
			if slices.Contains(info.Ranks, r.Number) {
				group[r.Number].event("STUCK")
			}
		}
	}
	s.StateChanged = func(rank int, _, to pmiserver.State) {
		if to != pmiserver.Closed && to != pmiserver.Lost {
			return
		}
		if err := p.coordinator.RankLeft(info.Name, node, rank); err != nil {
			p.coordinator.Fail(err)
		}
	}
}

// A spawning is a spawn request that waits for the case to continue.
type spawning struct {
	spawn.Request
	done chan outcome
}

type outcome struct {
	group string
	codes []int
	err   error
}

// Spawn reports the request as an event, and waits.
func (p *testJob) Spawn(ctx context.Context, r spawn.Request) (string, []int, error) {
	s := spawning{r, make(chan outcome, 1)}
	p.mu.Lock()
	p.spawns = append(p.spawns, s)
	p.mu.Unlock()
	for g, ranks := range p.groups {
		if r.Group == p.nameOf(g) {
			ranks[r.Rank].event("SPAWN " + r.String())
		}
	}
	select {
	case o := <-s.done:
		return o.group, o.codes, o.err
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

// nameOf names a group: the first one as the job says, the others k1, k2, ...
func (p *testJob) nameOf(group int) string {
	if group == 0 {
		return p.job.Name
	}
	return fmt.Sprint("k", group)
}

func (p *testJob) nextSpawn() spawning {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.spawns[0]
	p.spawns = p.spawns[1:]
	return s
}

// started lets the oldest request succeed.
func (p *testJob) started(codes string) {
	s := p.nextSpawn()
	o := outcome{group: p.nameOf(len(p.groups))}
	for code := range strings.SplitSeq(codes, ",") {
		if n, err := strconv.Atoi(code); err == nil {
			o.codes = append(o.codes, n)
		}
	}
	info := pmiserver.Info{Name: o.group, Size: s.Size(), Universe: p.job.Universe, Parent: s.Group, Preputs: s.Preputs}
	var apps, nodes []int
	for i, c := range s.Commands {
		for range c.Count {
			nodes = append(nodes, p.job.Spawned[len(apps)%len(p.job.Spawned)])
			apps = append(apps, i)
		}
	}
	info.AppNum = func(rank int) int { return apps[rank] }
	info.Mapping = mapping(nodes)
	p.add(info, nodes)
	s.done <- o
}

// mapping writes PMI_process_mapping in its simplest form.
func mapping(nodes []int) string {
	text := "(vector"
	for _, n := range nodes {
		text += fmt.Sprintf(",(%d,1,1)", n)
	}
	return text + ")"
}

func (p *testJob) failed(why string) {
	p.nextSpawn().done <- outcome{err: errors.New(why)}
}

func (p *testJob) player(s transcript.Step) *testRank { return p.groups[s.Group][s.Rank] }

// end closes all connections, and fails if a rank receives a reply to that.
func (p *testJob) end(t *testing.T, at string) {
	for _, ranks := range p.groups {
		for _, pl := range ranks {
			pl.conn.Close()
		}
	}
	p.all.Wait()
	for _, ranks := range p.groups {
		for r, pl := range ranks {
			if pl.got != "" && !t.Failed() {
				t.Errorf("%s: rank %d: received %q after the end", at, r, pl.got)
			}
		}
	}
}
