package pmiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/spawn"
)

func TestExitCode(t *testing.T) {
	for code, want := range map[int]int{0: 0, 1: 1, 9: 9, 255: 255, 256: 1, 257: 1, -1: 255, -256: 1, 470436358: 6} {
		if got := AbortExitCode(code); got != want {
			t.Errorf("ExitCode(%d) = %d, want %d", code, got, want)
		}
	}
}

// A get must not allocate: their number is the square of the number of ranks.
func TestGetAllocatesNothing(t *testing.T) {
	for name, line := range map[string]string{
		"found":   "cmd=get kvsname=kvs_1_0 key=card-17",
		"miss":    "cmd=get kvsname=kvs_1_0 key=none",
		"mapping": "cmd=get kvsname=kvs_1_0 key=PMI_process_mapping",
		"PMI-2":   "cmd=kvs-get;jobid=kvs_1_0;srcid=17;key=card-17;",
	} {
		c, request := loaded(t), []byte(line)
		c.input.isFrame = name == "PMI-2"
		got := testing.AllocsPerRun(1000, func() {
			c.handleMessage(request)
			c.Replies = c.Replies[:0]
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// loaded returns a session of a group in which 512 ranks have put their cards.
func loaded(t testing.TB) *rankSession { return loadedWith(t, 512) }

func loadedWith(t testing.TB, size int) *rankSession {
	s := New(Info{Name: "kvs_1_0", Size: size, Ranks: []int{0}, Mapping: "(vector,(0,1,512))"}, nil)
	var blob []byte
	for r := range size {
		blob = kvs.AppendPair(blob, fmt.Append(nil, "card-", r), bytes.Repeat([]byte("x"), 100))
	}
	next, err := s.store.NextSnapshot([][]byte{blob})
	if err != nil {
		t.Fatal(err)
	}
	s.store.SetSnapshot(next)
	c := s.newSession(t.Context(), 0, struct {
		io.Reader
		io.Writer
	}{nil, io.Discard}, identifiedConn{})
	c.Init()
	return c
}

// BenchmarkGet measures the server's part of a get, without system calls. The order of the keys
// defeats caches.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{512, 64000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := loadedWith(b, size)
			b.ReportAllocs()
			line := []byte(nil)
			for i := 0; b.Loop(); i = (i + 7919) % size {
				line = append(line[:0], "cmd=get kvsname=kvs_1_0 key=card-"...)
				line = append(strconv.AppendInt(line, int64(i), 10), '\n')
				c.input.addRead(copy(c.input.readBuffer(), line))
				if err := c.handleMessages(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestStoreIsBounded(t *testing.T) {
	c := loaded(t)
	c.server.store.AddPending(kvs.MaxStore)
	c.handleMessage([]byte("cmd=put key=a value=b"))
	if got, want := string(c.Replies), "cmd=put_result rc=-1 msg=kvs_full\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Bytes counted as pending are subtracted when they are exchanged, replaced, or lost with their rank.
func TestPendingBytesAreSettled(t *testing.T) {
	c := loaded(t)
	for _, line := range []string{"cmd=put key=a value=long", "cmd=put key=a value=b", "cmd=put key=cc value="} {
		c.handleMessage([]byte(line))
	}
	pending(t, c.server.store, 4+2*kvs.PairCost)
	c.handleMessage([]byte("cmd=barrier_in"))
	pending(t, c.server.store, 0)
	c.handleMessage([]byte("cmd=put key=a value=b"))
	c.server.disconnectRank(c, nil)
	pending(t, c.server.store, 0)
}

// pending fails unless want bytes are counted as pending.
func pending(t *testing.T, s *kvs.Store, want int) {
	t.Helper()
	if s.AddPending(kvs.MaxStore - want + 1) {
		t.Errorf("less than %d bytes are pending", want)
	}
	if !s.AddPending(kvs.MaxStore - want) {
		t.Errorf("more than %d bytes are pending", want)
	}
	s.SubtractPending(kvs.MaxStore - want)
}

// The open requests of a rank are limited.
func TestLimitsOfARank(t *testing.T) {
	c := loaded(t)
	for i := range kvs.MaxKeys {
		c.handleMessage(fmt.Append(nil, "cmd=put key=", i, " value="))
	}
	c.Replies = c.Replies[:0]
	c.handleMessage([]byte("cmd=put key=a value=b"))
	c.handleMessage([]byte("cmd=put key=0 value=b"))
	if got, want := string(c.Replies), "cmd=put_result rc=-1 msg=kvs_full\ncmd=put_result rc=0\n"; got != want {
		t.Errorf("after %d keys: got %q, want %q", kvs.MaxKeys, got, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	c = loaded(t)
	c.ctx = ctx
	c.server.Spawner = waitingSpawner{}
	for range maxSpawns {
		c.pmi2.HandleFrame([]byte("cmd=spawn;ncmds=1;subcmd=e;maxprocs=1;"))
	}
	if len(c.Replies) > 0 {
		t.Errorf("a spawn is answered before it is done: %q", c.Replies)
	}
	c.pmi2.HandleFrame([]byte("cmd=spawn;ncmds=1;subcmd=e;maxprocs=1;"))
	if got := string(c.Replies); !strings.Contains(got, "errmsg=too_many_spawns;") {
		t.Errorf("after %d spawns: %q", maxSpawns, got)
	}
	cancel()
	c.pending.Wait()
}

// waitingSpawner never starts anything.
type waitingSpawner struct{}

func (waitingSpawner) Spawn(ctx context.Context, _ spawn.Request) (string, []int, error) {
	<-ctx.Done()
	return "", nil, ctx.Err()
}

// Both PMI versions list the failed ranks with commas, in the order of their ends. MPICH crashes on a
// range, and depends on the order. PMI-2 offers the list as a key, which MPICH reads, and as an
// attribute.
func TestDeadRanksAreListedInTheOrderOfTheirDeath(t *testing.T) {
	many := make([]int, 1000)
	for i := range many {
		many[i] = 999 - i
	}
	for _, test := range []struct {
		ask  string
		dead []int
		want string
	}{
		{"cmd=get key=PMI_dead_processes", nil, "cmd=get_result rc=0 value=\n"},
		{"cmd=get key=PMI_dead_processes", []int{3, 1, 2}, "cmd=get_result rc=0 value=3,1,2\n"},
		{"cmd=kvs-get;key=PMI_dead_processes;", []int{3, 1, 2}, "found=TRUE;value=3,1,2;"},
		{"cmd=kvs-get;key=PMI_dead_processes;", nil, "found=TRUE;value=;"},
		{"cmd=info-getjobattr;key=PMI_dead_processes;", []int{2}, "found=TRUE;value=2;"},
		{"cmd=get key=PMI_dead_processes", many, "value=999,998,"},
	} {
		c := loaded(t)
		c.input.isFrame = strings.HasSuffix(test.ask, ";")
		c.server.SetDeadRanks(test.dead)
		c.handleMessage([]byte(test.ask))
		got := string(c.Replies)
		if !strings.Contains(got, test.want) || len(got) > 1023 || strings.Contains(got, ",\n") {
			t.Errorf("%s of %d dead: %q, want %q, at most 1,023 bytes", test.ask, len(test.dead), got, test.want)
		}
	}
}
