package pmiserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	for code, want := range map[int]int{0: 0, 1: 1, 9: 9, 255: 255, 256: 1, 257: 1, -1: 255, -256: 1, 470436358: 6} {
		if got := ExitCode(code); got != want {
			t.Errorf("ExitCode(%d) = %d, want %d", code, got, want)
		}
	}
}

func TestStuckErrorText(t *testing.T) {
	for want, err := range map[string]*StuckError{
		"rank 0 waits in a barrier that rank 1 has left for good":                          {Waiting: []int{0}, Gone: []int{1}},
		"ranks 0 and 1 wait in a barrier that ranks 2, 3 and 4 have left for good":         {Waiting: []int{0, 1}, Gone: []int{2, 3, 4}},
		"another node waits in a barrier that rank 4 has left for good":                    {Nodes: 1, Gone: []int{4}},
		"3 other nodes wait in a barrier that ranks 1, 2, 3 and 3 more have left for good": {Nodes: 3, Gone: []int{1, 2, 3, 4, 5, 6}},
	} {
		if got := err.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// TestGetAllocatesNothing: there are as many gets as ranks squared.
func TestGetAllocatesNothing(t *testing.T) {
	for name, line := range map[string]string{
		"found":   "cmd=get kvsname=kvs_1_0 key=card-17",
		"miss":    "cmd=get kvsname=kvs_1_0 key=none",
		"mapping": "cmd=get kvsname=kvs_1_0 key=PMI_process_mapping",
		"PMI-2":   "cmd=kvs-get;jobid=kvs_1_0;srcid=17;key=card-17;",
	} {
		c, request := loaded(t), []byte(line)
		answer := c.answer
		if name == "PMI-2" {
			answer = c.answer2
		}
		got := testing.AllocsPerRun(1000, func() {
			answer(request)
			c.answers = c.answers[:0]
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// loaded returns a session of a group in which 512 ranks have put their cards.
func loaded(t testing.TB) *session { return loadedWith(t, 512) }

func loadedWith(t testing.TB, size int) *session {
	s := New(Info{Name: "kvs_1_0", Size: size, Ranks: []int{0}, Mapping: "(vector,(0,1,512))"}, nil)
	var blob []byte
	for r := range size {
		blob = appendPair(blob, fmt.Append(nil, "card-", r), bytes.Repeat([]byte("x"), 100))
	}
	snap, err := s.snap.Load().next([][]byte{blob})
	if err != nil {
		t.Fatal(err)
	}
	s.snap.Store(snap)
	return &session{s: s, state: Inited, out: sender{conn: io.Discard}}
}

// BenchmarkGet is the server's own part of a get: no system calls. The keys come in
// an order that no cache foresees.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{512, 64000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := loadedWith(b, size)
			b.ReportAllocs()
			line := []byte(nil)
			for i := 0; b.Loop(); i = (i + 7919) % size {
				line = append(line[:0], "cmd=get kvsname=kvs_1_0 key=card-"...)
				line = append(strconv.AppendInt(line, int64(i), 10), '\n')
				c.in.filled(copy(c.in.room(), line))
				if err := c.batch(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSnapshotStaysShallow: many barriers with a put each make few layers, and
// what was replaced is not kept.
func TestSnapshotStaysShallow(t *testing.T) {
	snap := &snapshot{seed: maphash.MakeSeed()}
	want := make(map[string]string)
	for i := range 2000 {
		key, value := fmt.Sprint("key-", i%700), fmt.Sprint("value-", i)
		want[key] = value
		next, err := snap.next([][]byte{appendPair(nil, []byte(key), []byte(value))})
		if err != nil {
			t.Fatal(err)
		}
		snap = next
		if len(snap.layers) > 11 {
			t.Fatalf("%d layers after %d barriers", len(snap.layers), i+1)
		}
	}
	for key, value := range want {
		if got, _ := snap.get([]byte(key)); string(got) != value {
			t.Errorf("%s = %q, want %q", key, got, value)
		}
	}
	if snap.epoch != 2000 || snap.bytes > 2*700*20 {
		t.Errorf("epoch %d, %d bytes", snap.epoch, snap.bytes)
	}
}

func TestStoreIsBounded(t *testing.T) {
	c := loaded(t)
	c.s.bytes.Store(maxStore)
	c.answer([]byte("cmd=put key=a value=b"))
	if got, want := string(c.answers), "cmd=put_result rc=-1 msg=kvs_full\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPendingBytesAreSettled: what is counted as put is taken back when it is
// spread, replaced, or lost with its rank.
func TestPendingBytesAreSettled(t *testing.T) {
	c := loaded(t)
	for _, line := range []string{"cmd=put key=a value=long", "cmd=put key=a value=b", "cmd=put key=cc value="} {
		c.answer([]byte(line))
	}
	if got, want := c.s.bytes.Load(), int64(4+2*pairCost); got != want {
		t.Errorf("%d bytes pending, want %d", got, want)
	}
	c.answer([]byte("cmd=barrier_in"))
	if got := c.s.bytes.Load(); got != 0 {
		t.Errorf("%d bytes pending after the barrier, want 0", got)
	}
	c.answer([]byte("cmd=put key=a value=b"))
	c.s.leave(c, nil)
	if got := c.s.bytes.Load(); got != 0 {
		t.Errorf("%d bytes pending after the end, want 0", got)
	}
}

// TestLimitsOfARank: what a rank may do at once is bounded.
func TestLimitsOfARank(t *testing.T) {
	c := loaded(t)
	for i := range maxKeys {
		c.answer(fmt.Append(nil, "cmd=put key=", i, " value="))
	}
	c.answers = c.answers[:0]
	c.answer([]byte("cmd=put key=a value=b"))
	c.answer([]byte("cmd=put key=0 value=b"))
	if got, want := string(c.answers), "cmd=put_result rc=-1 msg=kvs_full\ncmd=put_result rc=0\n"; got != want {
		t.Errorf("after %d keys: got %q, want %q", maxKeys, got, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	c = loaded(t)
	c.ctx = ctx
	c.s.Spawner = patient{}
	for range maxSpawns {
		c.args.parse2([]byte("cmd=spawn;ncmds=1;subcmd=e;maxprocs=1;"))
		c.spawn2()
	}
	if len(c.answers) > 0 {
		t.Errorf("a spawn is answered before it is done: %q", c.answers)
	}
	c.two.name = []byte("spawn")
	c.spawn2()
	if got := string(c.answers); !strings.Contains(got, "errmsg=too_many_spawns;") {
		t.Errorf("after %d spawns: %q", maxSpawns, got)
	}
	cancel()
	c.late.Wait()
}

// patient never starts anything.
type patient struct{}

func (patient) Spawn(ctx context.Context, _ SpawnRequest) (string, []int, error) {
	<-ctx.Done()
	return "", nil, ctx.Err()
}

// TestManyCodes: what old clients cannot read is left out.
func TestManyCodes(t *testing.T) {
	s := spawned{codes: make([]int, 600)}
	for _, fault := range []int{0, 1} {
		s.codes[599] = fault
		if got, want := string(s.line()), "cmd=spawn_result rc=0\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := string(s.frame([]byte("      cmd=spawn-response;"))); !strings.Contains(got, ";nerrs=1;errcodes=0,0,") {
		t.Errorf("got %q", got)
	}
}

// TestPreputs: a group that was spawned begins to count its fences as
// any other, whatever was put for it.
func TestPreputs(t *testing.T) {
	s := New(Info{Name: "k1", Size: 1, Ranks: []int{0}, Preputs: []Pair{{"a", "1"}, {"b", "2"}, {"a", "3"}}}, nil)
	snap := s.snap.Load()
	if a, _ := snap.get([]byte("a")); string(a) != "3" || snap.epoch != 0 || snap.count != 2 {
		t.Errorf("a = %q, epoch %d, %d keys", a, snap.epoch, snap.count)
	}
}

// A table of pairs has room for those that differ, and not for as many as there might be
// in that many bytes (TRUST-30).
func TestMemoryOfALayer(t *testing.T) {
	empty := make([]byte, 2<<20) // a million times the same
	var short []byte
	for i := range 1 << 18 {
		short = appendPair(short, binary.BigEndian.AppendUint32(nil, uint32(i))[1:], nil)
	}
	for name, test := range map[string]struct {
		blob        []byte
		count, most int
	}{
		"one pair again and again": {empty, 1, 5 * len(empty)},
		"the shortest":             {short, 1 << 18, 16 * len(short)},
	} {
		l, err, took := layering(test.blob)
		if err != nil || l.count != test.count || took > uint64(test.most) {
			t.Errorf("%s: %d pairs, %v, took %d bytes, more than %d", name, l.count, err, took, test.most)
		}
	}
}

// layering makes a layer of a blob, and measures what that takes.
func layering(blob []byte) (l layer, err error, took uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err = newLayer(maphash.MakeSeed(), [][]byte{blob})
	runtime.ReadMemStats(&after)
	return l, err, after.TotalAlloc - before.TotalAlloc
}
