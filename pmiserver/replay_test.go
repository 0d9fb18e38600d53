package pmiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
	"remshell/pmiserver/pmitest"
)

// TestTranscripts replays testdata/pmi: once as written, once with each byte in
// a write of its own, once with all that can be joined in one write.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../testdata/pmi/*.pmi")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := pmitest.ReadCases(filepath.Base(name), f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			at := fmt.Sprintf("%s:%d", filepath.Base(name), c.Line)
			t.Run(at+"/whole", func(t *testing.T) { replay(t, c, at, whole) })
			t.Run(at+"/bytes", func(t *testing.T) { replay(t, c, at, singly) })
			merged := c
			merged.Steps = joined(c.Steps)
			t.Run(at+"/joined", func(t *testing.T) { replay(t, merged, at, whole) })
		}
	}
}

func whole(w io.Writer, b []byte) { w.Write(b) }

// singly writes byte by byte; what is long only so far.
func singly(w io.Writer, b []byte) {
	n := min(len(b), 2000)
	for i := range n {
		w.Write(b[i : i+1])
	}
	w.Write(b[n:])
}

// joined merges what a rank says in several lines without waiting.
func joined(steps []pmitest.Step) []pmitest.Step {
	var out []pmitest.Step
	for _, s := range steps {
		if n := len(out); n > 0 && s.Says && out[n-1].Says && s.Word == "" && out[n-1].Word == "" && s.Rank == out[n-1].Rank {
			out[n-1].Bytes = slices.Concat(out[n-1].Bytes, s.Bytes)
			continue
		}
		out = append(out, s)
	}
	return out
}

// replay plays one case. Nothing in it waits for a length of time: synctest
// knows when all goroutines wait for us.
func replay(t *testing.T, c pmitest.Case, at string, write func(io.Writer, []byte)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(c.Job)
		defer p.end(t, at)
		if !c.Job.Fresh {
			p.init(t, c.Job.Two)
		}
		for _, s := range c.Steps {
			where := fmt.Sprintf("%s: line %d", at, s.Line)
			if s.Says {
				p.silent(t, where)
				p.says(s, write)
				synctest.Wait()
				continue
			}
			if err := p.ranks[s.Rank].told(s); err != nil {
				t.Fatalf("%s: rank %d: %v", where, s.Rank, err)
			}
		}
		p.silent(t, at+": at the end")
	})
}

// init takes all ranks to where most cases begin.
func (p *play) init(t *testing.T, two bool) {
	for r, pl := range p.ranks {
		says, told := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
		if two {
			says = "cmd=init pmi_version=2 pmi_subversion=0\n    23cmd=fullinit;pmirank=" + fmt.Sprint(r) + ";"
			told = fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n   113cmd=fullinit-response;rc=0;"+
				"pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;", r, len(p.ranks))
		}
		pl.conn.Write([]byte(says))
		synctest.Wait()
		if err := pl.take(told); err != nil {
			t.Fatal(err)
		}
	}
}

// A play is a job on its stage: servers, a hub, and the ranks' ends.
type play struct {
	ranks   []*player
	servers []*pmiserver.Server // by node
	hub     *pmiserver.Hub
	all     sync.WaitGroup
}

// A player is what is seen of one rank.
type player struct {
	conn   net.Conn
	server *pmiserver.Server
	node   int

	mu     sync.Mutex // guards what follows
	got    string     // bytes told, not yet compared
	events []string   // words told, not yet compared
}

func newPlay(job pmitest.Job) *play {
	p := &play{}
	nodes := job.Nodes
	if nodes == nil {
		nodes = make([]int, job.Size)
	}
	local := make([][]int, slices.Max(nodes)+1)
	for rank, n := range nodes {
		local[n] = append(local[n], rank)
		p.ranks = append(p.ranks, &player{node: n})
	}
	p.hub = pmiserver.NewHub(len(local))
	names := &pmiserver.NameTable{}
	for n, ranks := range local {
		info := pmiserver.Info{
			Name: job.Name, Size: job.Size, Universe: job.Universe, Ranks: ranks, Mapping: job.Mapping,
			AppNum: func(rank int) int {
				if job.Apps == nil {
					return 0
				}
				return job.Apps[rank]
			},
		}
		for i, name := range job.Hosts {
			info.Hosts = append(info.Hosts, pmiserver.Host{Name: name, Ranks: local[i]})
		}
		p.servers = append(p.servers, p.serve(n, info, names))
	}
	return p
}

// serve starts the server of one node, and connects its ranks.
func (p *play) serve(node int, info pmiserver.Info, names pmiserver.Names) *pmiserver.Server {
	var fence pmiserver.Fencer
	if len(info.Ranks) < info.Size {
		fence = p.hub.Node(node)
	}
	s := pmiserver.New(info, fence)
	s.Names = names
	s.Abort = func(rank, code int, msg string) {
		p.ranks[rank].event(strings.TrimSpace(fmt.Sprintf("KILL(%d) %s", code, msg)))
		p.hub.Fail(errors.New("aborted"))
	}
	s.Broken = func(err error) {
		var stuck *pmiserver.StuckError
		if !errors.As(err, &stuck) {
			return
		}
		waiting := stuck.Waiting
		if len(waiting) == 0 {
			waiting = info.Ranks
		}
		for _, r := range waiting {
			p.ranks[r].event("STUCK")
		}
	}
	s.Changed = func(rank int, _, to pmiserver.State) {
		if to != pmiserver.Closed && to != pmiserver.Lost {
			return
		}
		if err := p.hub.Leave(node, rank); err != nil {
			p.hub.Fail(err)
		}
	}
	for _, r := range info.Ranks {
		mine, theirs := net.Pipe()
		pl := p.ranks[r]
		pl.conn, pl.server = mine, s
		p.all.Go(func() {
			err := s.Serve(context.Background(), r, theirs)
			theirs.Close()
			pl.event(ending(err))
		})
		p.all.Go(pl.read)
	}
	return s
}

func ending(err error) string {
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
		return "CLOSED"
	case errors.Is(err, pmiserver.ErrUnfinalized):
		return "LOST"
	case errors.As(err, &junk):
		return "DIE"
	}
	return err.Error()
}

func (pl *player) event(word string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.events = append(pl.events, word)
}

// read collects what the rank is told.
func (pl *player) read() {
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

func (p *play) says(s pmitest.Step, write func(io.Writer, []byte)) {
	pl := p.ranks[s.Rank]
	switch s.Word {
	case "EOF":
		pl.conn.Close()
	case "EXIT":
		pl.server.Exited(s.Rank)
	default:
		write(pl.conn, s.Bytes)
	}
}

// told compares one line, or one event.
func (pl *player) told(s pmitest.Step) error {
	switch s.Word {
	case "":
		return pl.take(string(s.Bytes))
	case "∅":
		return pl.nothing()
	}
	want := s.Word
	if want == "KILL" {
		want = strings.TrimSpace(fmt.Sprintf("KILL(%d) %s", s.Code, s.Bytes))
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.events) == 0 || pl.events[0] != want {
		return fmt.Errorf("got %q, want %s", pl.events, want)
	}
	pl.events = pl.events[1:]
	return nil
}

func (pl *player) take(want string) error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.got) < len(want) || pl.got[:len(want)] != want {
		return fmt.Errorf("\n got %.1100q %q\nwant %.1100q", pl.got, pl.events, want)
	}
	pl.got = pl.got[len(want):]
	return nil
}

func (pl *player) nothing() error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.got != "" || len(pl.events) > 0 {
		return fmt.Errorf("is told %q %q, and should not be", pl.got, pl.events)
	}
	return nil
}

// silent fails if a rank was told what the case does not list.
func (p *play) silent(t *testing.T, where string) {
	t.Helper()
	for r, pl := range p.ranks {
		if err := pl.nothing(); err != nil {
			t.Fatalf("%s: rank %d %v", where, r, err)
		}
	}
}

// end hangs up, and fails if that brings any answer.
func (p *play) end(t *testing.T, at string) {
	for _, pl := range p.ranks {
		pl.conn.Close()
	}
	p.all.Wait()
	for r, pl := range p.ranks {
		if pl.got != "" && !t.Failed() {
			t.Errorf("%s: rank %d: is told %q when all is over", at, r, pl.got)
		}
	}
}
