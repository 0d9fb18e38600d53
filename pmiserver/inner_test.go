package pmiserver

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
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
func loaded(t testing.TB) *session {
	s := New(Info{Name: "kvs_1_0", Size: 512, Ranks: []int{0}, Mapping: "(vector,(0,1,512))"}, nil)
	var blob []byte
	for r := range 512 {
		blob = appendPair(blob, fmt.Append(nil, "card-", r), bytes.Repeat([]byte("x"), 100))
	}
	snap, err := s.snap.Load().next([][]byte{blob})
	if err != nil {
		t.Fatal(err)
	}
	s.snap.Store(snap)
	return &session{s: s, state: Inited, out: sender{conn: io.Discard}}
}

// BenchmarkGet is the server's own part of a get: no system calls.
func BenchmarkGet(b *testing.B) {
	c := loaded(b)
	line := []byte("cmd=get kvsname=kvs_1_0 key=card-17\n")
	b.ReportAllocs()
	for b.Loop() {
		c.in.filled(copy(c.in.room(), line))
		if err := c.batch(); err != nil {
			b.Fatal(err)
		}
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
	if got := c.s.bytes.Load(); got != 4 {
		t.Errorf("%d bytes pending, want 4", got)
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

// FuzzFrame: however a stream is cut, the same lines come out of it, and no more
// is kept than a line.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("cmd=init\n\n\x00cmd=barrier_in\ncmd="), uint8(3))
	f.Add([]byte("mcmd=spawn\nendcmd\nGET / HTTP"), uint8(1))
	f.Add(bytes.Repeat([]byte("cmd=put value=x\n"), 300), uint8(200))
	f.Add([]byte("    14cmd=job-getid;14    cmd=job-getid;cmd=init\n\x00000013cmd=finalize;"), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		whole, errWhole := messages(stream, len(stream), step&1 != 0)
		parts, errParts := messages(stream, int(step)+1, step&1 != 0)
		if !slices.Equal(whole, parts) || errWhole != errParts {
			t.Errorf("in one: %q %v\nin parts: %q %v", whole, errWhole, parts, errParts)
		}
	})
}

// messages returns what is in a stream that comes in steps of n bytes.
func messages(stream []byte, n int, two bool) (out []string, err error) {
	f := frame{two: two}
	for len(stream) > 0 {
		k := copy(f.room(), stream[:min(n, len(stream))])
		stream = stream[k:]
		f.filled(k)
		for {
			line, err := f.next()
			if err != nil {
				return out, err
			}
			if line == nil {
				break
			}
			out = append(out, string(line))
		}
		if cap(f.buf) > 2*maxLine && !two {
			panic("the buffer grows without need")
		}
	}
	return out, nil
}

// FuzzParse: fields are parts of the line, and a tail is all that follows it.
func FuzzParse(f *testing.F) {
	f.Add("cmd=put kvsname=k0 key=x value=a b=c", uint8(0))
	f.Add("cmd=publish_name service=a b port=c port=d", uint8(1))
	f.Add("cmd= = == a= =b", uint8(2))
	f.Fuzz(func(t *testing.T, line string, which uint8) {
		tail := []string{"value", "port", "message"}[which%3]
		var a args
		a.parse([]byte(line), []string{tail})
		for _, fd := range a {
			if !strings.Contains(line, string(fd.key)+"="+string(fd.value)) {
				t.Errorf("%q=%q is no part of %q", fd.key, fd.value, line)
			}
		}
		if _, after, found := strings.Cut(line, " "+tail+"="); found && string(a.text(tail)) != after {
			t.Errorf("%s of %q = %q, want %q", tail, line, a.text(tail), after)
		}
	})
}

// FuzzParse2: what a sender escapes is what the reader has.
func FuzzParse2(f *testing.F) {
	f.Add("a", "host;0=x y;;end", "junk")
	f.Add("b", ";", ";=;;")
	f.Fuzz(func(t *testing.T, key, value, junk string) {
		var a args
		a.parse2([]byte(junk)) // must not harm
		if key == "" || key[0] == 0 || strings.ContainsAny(key, ";=") {
			return
		}
		body := append(appendEscaped([]byte("cmd=put;"+key+"="), []byte(value)), ";next=1;"...)
		a.parse2(body)
		want := value
		if key == "cmd" {
			want = "put"
		}
		if got := string(a.text(key)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	})
}

// FuzzBlob: what another node sends cannot do harm, and what can be read is
// written again the same.
func FuzzBlob(f *testing.F) {
	f.Add(appendPairs(nil, map[string][]byte{"a": []byte("1"), "b": bytes.Repeat([]byte("2"), 200)}))
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1})
	f.Fuzz(func(t *testing.T, blob []byte) {
		seed := maphash.MakeSeed()
		l, err := newLayer(seed, [][]byte{blob})
		if err != nil {
			return
		}
		want := make(map[string][]byte) // as a simpler reader has it
		for rest := blob; len(rest) > 0; {
			var key, value []byte
			key, value, rest, _ = cutPair(rest)
			want[string(key)] = value
		}
		again, err := newLayer(seed, [][]byte{appendPairs(nil, want)})
		if err != nil || again.count != len(want) || l.count != len(want) {
			t.Errorf("%d keys become %d, %d, %v", len(want), l.count, again.count, err)
		}
		for key, value := range l.all() {
			if !bytes.Equal(want[string(key)], value) {
				t.Errorf("%q is %q, want %q", key, value, want[string(key)])
			}
		}
	})
}

// FuzzServe: whatever a rank says, it gets well-formed lines, and the server
// lives on.
func FuzzServe(f *testing.F) {
	f.Add([]byte("cmd=init pmi_version=1\ncmd=put key=a value=b\ncmd=barrier_in\ncmd=get key=a\ncmd=getbyidx idx=0\n"))
	f.Add([]byte("cmd=init pmi_version=1\nmcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\ncmd=get_appnum\n"))
	f.Add([]byte("cmd=init pmi_version=1\ncmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=finalize\n"))
	f.Add([]byte("cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;    14cmd=kvs-fence;"))
	for name := range requests2 {
		body := "cmd=" + name + ";thrid=1;key=a;name=a;wait=TRUE;value=b;;;port=c;"
		f.Add(fmt.Appendf(nil, "cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;%6d%s", len(body), body))
	}
	for name := range requests {
		f.Add([]byte("cmd=init pmi_version=1\ncmd=" + name + " idx=0 key=a service=a group=WORLD:1 value=b port=c\n"))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		s := New(Info{Name: "k0", Size: 1, Ranks: []int{0}, Hosts: []Host{{"n0", []int{0}}}}, nil)
		s.Names = &NameTable{}
		var told bytes.Buffer
		s.Serve(t.Context(), 0, struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(said), &told})
		if b := told.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' && b[len(b)-1] != ';' {
			t.Errorf("an answer without end: %q", b)
		}
		if s.State(0) < Closed {
			t.Errorf("the rank is %v in the end", s.State(0))
		}
	})
}
