package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/test/actors"
	"remshell/wire"
)

// A spiteful cast is three helpers that do what they should, or say anything instead, as the
// bytes of a fuzzer will.
type spiteful struct {
	*actors.FakeHelpers
	mu      sync.Mutex // guards the rest
	bytes   []byte
	endings map[int]int // codes of ranks whose end was told by who has them, in order
	ranks   map[string][]int
}

// next is the next byte; 0 when there is none any more.
func (s *spiteful) next() (b byte) {
	if len(s.bytes) > 0 {
		b, s.bytes = s.bytes[0], s.bytes[1:]
	}
	return b
}

// act is one helper that has heard something.
func (s *spiteful) act(c *wire.Conn, node string, m wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := s.next(); b > 127; b = s.next() { // something that fits or not
		all, made := wire.Kinds(), actors.HelperMessages()
		if m := all[int(b)%len(all)].New(); b%3 == 0 {
			c.Send(m)
		} else {
			c.Send(made[int(b)%len(made)].Make(int(s.next()%5) - 1))
		}
	}
	switch m := m.(type) {
	case *wire.Prepare:
		for _, r := range m.Ranks {
			s.ranks[node] = append(s.ranks[node], m.Group.First+r.Rank)
		}
	case *wire.Start:
		for _, rank := range s.ranks[node] {
			c.Send(&wire.Started{Rank: rank, PID: 1})
			if b := s.next(); b > 3 {
				c.Send(&wire.Data{Rank: rank, Stream: wire.Stdout, Bytes: make([]byte, b)})
			}
			code := int(s.next() & 1)
			s.endings[rank] = code
			c.Send(&wire.Exited{Exit: job.Exit{Rank: rank, Code: code, PMI: job.PMIFinalized}})
		}
	case *wire.EndJob:
		c.Send(&wire.Drained{})
	}
	return false
}

// A job ends, whatever its helpers say: with a code that is one, and with 0 only if each rank
// has ended with 0, as told by the host that has it.
func FuzzRun(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 130, 1, 0, 0, 133, 2, 140, 0, 150, 3})
	f.Add([]byte("\x00\x00\x90\x01\xa0\x00\xb3\x02\xc1\x00\xd0\x02\xe5\x01\xf3\x00\xff\x03"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		synctest.Test(t, func(t *testing.T) {
			s := &spiteful{FakeHelpers: actors.New(nil), bytes: bytes, endings: make(map[int]int), ranks: make(map[string][]int)}
			s.Answer = s.act
			req := job.Request{Job: "j", Apps: []job.App{{N: 3, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 1}}}, TimeLimits: job.TimeLimits{Grace: time.Second, Run: time.Minute}}
			for i := range 3 {
				name := fmt.Sprint("n", i)
				req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: name, Host: name, Slots: 4})
			}
			signals := make(chan os.Signal)
			defer close(signals)
			errs := stdio.Stderr(io.Discard)
			env := Env{Out: stdio.Stdout(io.Discard), Err: errs}
			env.Env = reserve.Env{Connector: node.Connector{Dialer: s, GreetTimeout: 10 * time.Second, Log: zerolog.Nop()},
				RankOptions: reserve.RankOptions{Umask: -1}, Signals: signals, Report: func(string) {}, Suspend: func() {}}
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result, err := Run(ctx, req, env)
			if err != nil {
				errs.Close()
			}
			<-errs.Done()
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("it took %v", took)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			well := len(s.endings) == 3
			for _, code := range s.endings {
				well = well && code == 0
			}
			if err == nil && (result.Code < 0 || result.Code > 255 || result.Code == 0 && !well) {
				t.Errorf("code %d, %v, ends %v", result.Code, result.Cause, s.endings)
			}
		})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
			t.Errorf("%d MiB of memory", took>>20)
		}
	})
}
