package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// anySide receives messages of either side.
const anySide Side = 0

func TestReceiveHelloSkipsNoise(t *testing.T) {
	for _, noise := range []string{"", "hello\n", "no newline", strings.Repeat("motd\n", 4000),
		strings.Repeat("x", 100_000), "\x00remshell", "\x00\xff\n\x00\n"} {
		var stream bytes.Buffer
		stream.WriteString(noise)
		helper := NewConn(&memory{w: &stream}, Helper)
		helper.SendHello(&Hello{Version: Version, Host: "n1"})
		helper.Close()
		hello, before, err := NewConn(&memory{r: &stream}, Launcher).ReceiveHello()
		if err != nil || hello.Host != "n1" || string(before) != noise {
			t.Errorf("after %.20q: hello %+v, noise %.20q, %v", noise, hello, before, err)
		}
	}
}

func TestReceiveHelloReportsNoise(t *testing.T) {
	for _, text := range []string{"", "sh: not found\n", Magic, Magic + "\x02\x01\x02", Magic + "\x01\x7f"} {
		_, _, err := NewConn(&memory{r: strings.NewReader(text)}, Launcher).ReceiveHello()
		var greet *HelloError
		if !errors.As(err, &greet) {
			t.Fatalf("%q: error %v, want a GreetError", text, err)
		}
		if want := strings.TrimSuffix(text, "\x02\x01\x02"); !strings.Contains(text, Magic) && string(greet.Noise) != want {
			t.Errorf("%q: noise %q", text, greet.Noise)
		}
	}
	endless := io.MultiReader(strings.NewReader(strings.Repeat("y\n", maxNoise)))
	if _, _, err := NewConn(&memory{r: endless}, Launcher).ReceiveHello(); err == nil {
		t.Error("endless noise: no error")
	}
}

// The first violation is found before any byte of the body is read.
func TestRecvReportsViolation(t *testing.T) {
	frame := func(kind byte, size uint64, body ...byte) []byte {
		return append(binary.AppendUvarint([]byte{kind}, size), body...)
	}
	tests := []struct {
		self  Side
		frame []byte
		want  string
	}{
		{Launcher, frame(77, 0), "the host sent a message of unknown kind 77, or with a malformed body"},
		{Launcher, frame(0, 0), "the host sent a message of unknown kind 0, or with a malformed body"},
		{Launcher, frame(255, 1<<62), "the host sent a message of unknown kind 255, or with a malformed body"},
		{Launcher, frame(3, 10), "the host sent the message Prepare, which only mpiexec may send"},
		{Helper, frame(15, 10), "the host sent the message Exited, which only a helper may send"},
		{Launcher, frame(33, 32<<20), "the host sent a LedgerListed message of 33554432 bytes, which is too large"},
		{Launcher, frame(31, 1), "the host sent a ClaimsChanged message of 1 bytes, which is too large"},
		{Launcher, frame(1, 1, 2), "the host sent a message of unknown kind 1, or with a malformed body"},
		{Launcher, frame(16, 3, 0, 0, 0), "the host sent a message of unknown kind 16, or with a malformed body"},
		{Launcher, frame(10, 3, 2, 'x', 0x7e), "the host sent a message of unknown kind 10, or with a malformed body"},
	}
	for _, test := range tests {
		m, err := NewConn(&memory{r: bytes.NewReader(test.frame)}, test.self).Recv()
		if v, ok := err.(Violation); !ok || string(v) != test.want {
			t.Errorf("% x: %+v, %v; want %s", test.frame, m, err, test.want)
		}
	}
}

// A frame may be as large as its kind allows, and not a byte larger.
func TestFrameSizeLimit(t *testing.T) {
	for number, k := range table {
		if k.New == nil {
			continue
		}
		if _, err := checkHeader(byte(number), uint64(k.MaxBody), anySide); err != nil {
			t.Errorf("%s of %d bytes: %v", k.Name, k.MaxBody, err)
		}
		want := fmt.Sprintf("the host sent %s message of %d bytes, which is too large", article(k.Name), k.MaxBody+1)
		if _, err := checkHeader(byte(number), uint64(k.MaxBody)+1, anySide); err != Violation(want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRecvReportsTruncatedFrame(t *testing.T) {
	whole := appendFrame(nil, &Hello{Version: 1, Build: "abc", Host: "n1", PID: 7})
	for n := 1; n < len(whole); n++ {
		m, err := NewConn(&memory{r: bytes.NewReader(whole[:n])}, Launcher).Recv()
		if err != io.ErrUnexpectedEOF {
			t.Errorf("after %d bytes: %+v, %v", n, m, err)
		}
	}
	if _, err := NewConn(&memory{r: strings.NewReader("")}, Launcher).Recv(); err != io.EOF {
		t.Errorf("end between messages: %v, want io.EOF", err)
	}
}

func TestSendNeverBlocks(t *testing.T) {
	a, b := net.Pipe() // nobody reads b
	c := NewConn(a, Helper)
	for range 1000 {
		if err := c.Send(&Data{Rank: 1, Stream: Stdout, Bytes: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	deadline := time.Now().Add(5 * time.Minute)
	for c.Send(&Ping{}) == nil {
		if time.Now().After(deadline) {
			t.Fatal("Send never noticed the closed pipe")
		}
	}
	c.Abandon()
	if c.Send(&Ping{}) == nil {
		t.Error("Send after Abandon: no error")
	}
}

func TestCloseFlushes(t *testing.T) {
	var stream bytes.Buffer
	c := NewConn(&memory{w: &stream}, Helper)
	for i := range 100 {
		c.Send(&Credit{Rank: i})
	}
	c.Close()
	in := NewConn(&memory{r: &stream}, Launcher)
	for i := range 100 {
		if m, err := in.Recv(); err != nil || m.(*Credit).Rank != i {
			t.Fatalf("message %d: %+v, %v", i, m, err)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	m := &Prepare{Job: "job", Apps: []job.App{{Argv: []string{"/bin/true"}}}, Process: Process{BaseEnv: job.Env{Set: make([]string, 60)}}}
	for i := range m.Process.BaseEnv.Set {
		m.Process.BaseEnv.Set[i] = fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("v", 40))
	}
	var buf []byte
	for b.Loop() {
		buf = appendFrame(buf[:0], m)
	}
	b.SetBytes(int64(len(buf)))
}

// memory is a stream that reads from its reader and keeps what is written.
type memory struct {
	r io.Reader
	w *bytes.Buffer
}

func (m *memory) Read(p []byte) (int, error) {
	if m.r == nil {
		return 0, io.EOF
	}
	return m.r.Read(p)
}
func (m *memory) Write(p []byte) (int, error) { return m.w.Write(p) }
func (m *memory) Close() error                { return nil }

// A frame for many connections is stored once, and is written in its order among other messages.
func TestSharedFrameIsStoredOnce(t *testing.T) {
	const many, size = 50, 4 << 20
	frame := Encode(&Fence{ID: "k0/1", Blob: make([]byte, size)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var near, far [many]*Conn
	for i := range many {
		a, b := net.Pipe()
		near[i], far[i] = NewConn(a, Launcher), NewConn(b, anySide)
		near[i].Send(&Credit{Rank: 1})
		near[i].SendFrame(frame)
		near[i].Send(&Credit{Rank: 2})
		near[i].SendFrame(Encode(&Credit{Rank: 3}))
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > many*size/4 {
		t.Errorf("%d frames of %d bytes took %d", many, size, took)
	}
	for i := range many {
		for _, want := range []Message{&Credit{Rank: 1}, nil, &Credit{Rank: 2}, &Credit{Rank: 3}} {
			got, err := far[i].Recv()
			if fence, ok := got.(*Fence); ok && want == nil && len(fence.Blob) == size {
				continue
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("got %T, %v; want %T", got, err, want)
			}
		}
		near[i].Abandon()
		far[i].Abandon()
	}
}

// A connection with nothing to write has no writer, and keeps a buffer only if it has carried
// output. Messages sent later are written normally.
func TestIdleConnHoldsNoBuffer(t *testing.T) {
	for _, test := range []struct {
		bytes int
		keeps bool
	}{{1, false}, {flowBatch, true}, {maxBatch / 4, true}, {2 * maxBatch, false}} {
		a, b := net.Pipe()
		near, far := NewConn(a, Helper), NewConn(b, Launcher)
		for range 3 {
			for range 2 { // the second one may come while the first is being written
				near.Send(&Fence{ID: "k0/1", Blob: make([]byte, test.bytes)})
			}
			for range 2 {
				if _, err := far.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			near.Flush()
			near.mu.Lock()
			if near.writer != nil {
				t.Error("there is a writer, and nothing to write")
			}
			if held := cap(near.outBuf) + cap(near.spareBuf); held > 0 != test.keeps {
				t.Errorf("after messages of %d bytes buffers of %d are kept", test.bytes, held)
			}
			near.mu.Unlock()
		}
		near.Close()
		far.Close()
	}
}

// Encoding and decoding a message without text and list allocates only the message itself. Each rank's start and
// end is such a message.
func TestCodecDoesNotAllocate(t *testing.T) {
	for _, m := range []Message{&Started{Rank: 639_999, PID: 4711}, &Exited{Exit: job.Exit{Rank: 639_999, Code: 3, Usage: job.Usage{Wall: time.Hour}}}} {
		buf := make([]byte, 0, 64)
		written := testing.AllocsPerRun(1000, func() { buf = appendFrame(buf[:0], m) })
		_, size := binary.Uvarint(buf[1:])
		again := kindOf(m).New()
		read := testing.AllocsPerRun(1000, func() {
			if err := Decode(again, buf[1+size:]); err != nil {
				t.Fatal(err)
			}
		})
		if written != 0 || read != 0 || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v: %v pieces of memory to write it, %v to read it; read as %+v", m, written, read, again)
		}
	}
}
