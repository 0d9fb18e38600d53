//go:build linux

package helper_test

import (
	"context"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	_ "remshell/feature" // a helper has all features, as that of the program does
	"remshell/helper"
	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// A fuzzInput is an mpiexec that sends messages made from a fuzzer's bytes, whether they make sense or not.
type fuzzInput struct {
	bytes []byte
	dir   string // of the ledger, and of all files
}

// next returns the next byte, or 0 if there are none left.
func (w *fuzzInput) next() (b byte) {
	if len(w.bytes) > 0 {
		b, w.bytes = w.bytes[0], w.bytes[1:]
	}
	return b
}

func (w *fuzzInput) word(of ...string) string { return of[int(w.next())%len(of)] }

func (w *fuzzInput) rank() int { return []int{0, 1, 2, 7, 1 << 20}[w.next()%5] }

func (w *fuzzInput) group() string { return w.word("g", "g", "g", "h", "") }

// message returns one message that an mpiexec can send, at any time here.
func (w *fuzzInput) message() wire.Message {
	switch w.next() % 32 {
	case 0, 1:
		return w.prepare()
	case 2, 3:
		return &wire.Start{Group: w.group()}
	case 4:
		return &wire.Data{Rank: w.rank(), Stream: wire.Stream(w.next() % 4), Bytes: make([]byte, int(w.next()))}
	case 5:
		return &wire.Credit{Rank: w.rank(), Stream: wire.Stream(w.next() % 4), Bytes: int(w.next()) << (w.next() % 32)}
	case 6:
		return &wire.Fenced{ID: w.group() + w.word("/0", "/1", "", "/x"), Blobs: [][]byte{w.bytes[:len(w.bytes)/2]}, Err: w.word("", "no")}
	case 7:
		return &wire.Signal{Number: int(w.next() % 66)}
	case 8:
		return &wire.EndJob{Linger: time.Duration(w.next()) * time.Millisecond, Grace: time.Duration(w.next()) * time.Millisecond}
	case 9:
		return &wire.KillGroup{Group: w.group()}
	case 10:
		return &wire.CancelPrepare{Group: w.group()}
	case 11, 12:
		return w.example()
	case 15:
		return &wire.RankMap{ID: int(w.next() % 4), Nodes: []string{"here"}, NodeOfRank: []int{0, int(w.next())}}
	case 16:
		return &wire.ResizeTerminal{Rows: int(w.next()), Cols: 1 << 15}
	case 17:
		return &wire.ReadMarks{Tag: w.word("fuzz", "/", "")}
	case 18:
		return &wire.Enqueue{Ledger: w.dir, Ticket: job.Ticket{Job: "j"}}
	case 19:
		return &wire.Overtake{UID: os.Getuid(), Number: int64(w.next())}
	case 20:
		return &wire.WriteMark{Tag: w.word("fuzz", "/", ""), Mark: w.word("a", "../a", "")}
	case 21:
		return &wire.ProbePeers{Ports: []wire.ProbePort{{Node: "n", Address: w.word("127.0.0.1:1", "", "[::1", "127.0.0.1:99999")}}}
	case 13, 14, 23, 24, 25, 26, 27, 31:
		return w.ofFeature()
	case 28:
		return &wire.Hold{Why: job.Hold(w.word("suspend", "stopped", "", "x")), On: w.next()%3 > 0}
	case 30:
		return &wire.StdinBroadcast{Ranks: []int{w.rank(), w.rank(), w.rank()}, Bytes: w.bytes[:min(len(w.bytes), int(w.next()%4))]}
	case 22:
		return &wire.OpenProbePort{Address: w.word("127.0.0.1", "", "x")}
	}
	return w.blank()
}

// ofFeature returns a message that a feature owns, with other values than its example has.
func (w *fuzzInput) ofFeature() wire.Message {
	var all []wire.Kind
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender != wire.Helper {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return w.blank()
	}
	m := all[int(w.next())%len(all)].Example(0)
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i).Addr().Interface()
		switch name := fields.Type().Field(i).Name; p := field.(type) {
		case *int:
			if *p = int(w.next() % 4); name == "Rank" {
				*p = w.rank()
			}
		case *string:
			if *p = w.word(*p, "", "a", "g[", "g[0-2]"); name == "Group" {
				*p = w.group()
			}
		case *bool:
			*p = w.next()%2 == 0
		case *[]byte:
			*p = w.bytes[:len(w.bytes)/2]
		case *[]int:
			*p = []int{w.rank(), w.rank()}
		}
	}
	return m
}

// example returns the example of a message that a feature of mpiexec sends. Features try others in tests of their own.
func (w *fuzzInput) example() wire.Message {
	var examples []func(rank int) wire.Message
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender != wire.Helper {
			examples = append(examples, k.Example)
		}
	}
	return examples[int(w.next())%len(examples)](w.rank())
}

// blank returns an empty message of any kind, also of kinds that only a helper sends.
func (w *fuzzInput) blank() wire.Message {
	kinds := wire.Kinds()
	m := kinds[int(w.next())%len(kinds)].New()
	if v := reflect.ValueOf(m).Elem().FieldByName("Ledger"); v.IsValid() {
		v.SetString(w.dir)
	}
	return m
}

// prepare returns a Prepare for some ranks, consistent or not.
func (w *fuzzInput) prepare() *wire.Prepare {
	m := &wire.Prepare{
		Job:     "j",
		Group:   wire.Group{Name: w.group(), First: int(w.next()%2) * w.rank(), Size: 3, NodeCount: 1 + int(w.next()%2)},
		Node:    wire.GroupNode{Name: "here"},
		Process: wire.Process{Umask: -1},
		Streams: wire.Streams{Window: int(w.next()), Stdin: []int{int(w.next() % 3)}, MergeStderr: w.next()%4 == 0},
		PMI:     wire.PMISetup{NoFabric: w.next()%4 == 0, Port: w.next()%4 == 0},

		Supervision: wire.Supervision{Grace: 10 * time.Millisecond},
		Claim:       wire.Claim{Ledger: w.dir, MaxProcs: -1},
	}
	for _, setting := range wire.ExampleSettings() {
		if w.next()%2 == 0 && !hasKind(m.Settings, setting) {
			m.Settings = append(m.Settings, setting)
		}
	}
	for range w.next() % 4 {
		script := w.word("exit 0", "exit 3", "echo $PMI_SIZE; cat", "kill -9 $$", "exec sleep 1000",
			`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=publish_name service=a port=b\ncmd=barrier_in\n' >&3; read go`,
			`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n' >&3; exec sleep 1000`,
			"printf junk >&3; yes", "setsid sleep 1000 & exit 0")
		m.Apps = append(m.Apps, job.App{Argv: []string{"/bin/sh", "-c", script}, Dir: w.word("/", "/", "/", "/none")})
		m.Ranks = append(m.Ranks, job.RankPlan{Rank: int(w.next() % 3), App: len(m.Apps) - 1})
	}
	return m
}

// hasKind reports whether a setting of the same feature is among settings.
func hasKind(settings []wire.Setting, of wire.Setting) bool {
	return slices.ContainsFunc(settings, func(s wire.Setting) bool { return reflect.TypeOf(s) == reflect.TypeOf(of) })
}

// sendAll sends all messages and then closes the connection. At times it waits for a reply, or sends junk inside the
// stream.
func (w *fuzzInput) sendAll(stream io.Writer, conn *wire.Conn, received <-chan wire.Message) {
	for len(w.bytes) > 0 {
		if w.next() > 250 {
			stream.Write(w.bytes)
			break
		}
		if conn.Send(w.message()) != nil {
			break
		}
		if w.next()%4 == 0 {
			select {
			case <-received:
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	conn.Close()
}

// testTimeout is for steps that have no reason to take long.
const testTimeout = 5 * time.Minute

// resting is the number of goroutines after the first session of this process.
var resting int

// A helper ends when its mpiexec is gone, whatever it received before. It leaves neither a process nor a goroutine,
// and uses no more memory than its messages need (TRUST-35).
func FuzzHelper(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(24) { // each message alone, and while ranks run
		f.Add([]byte{0, i, 0, 1, 2, 3, 4, 5, 6, 7})
		ready := []byte{0, 0, 0, 0, 0, 0, 255, i, i / 4, 1, 0, 1, 3, i % 9, 0, 0, 5, 0, 1, i / 2 % 9, 0, 2, 0}
		f.Add(append(ready, 0, 2, 0, 0, 0, 17, 0, 0, 17, 0, 0, i, 0, 0, 0, 1, 0, 0))
	}
	f.Add([]byte("\x00\x00\x00\x00\xff\x00\xffjunk"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		serveFuzzInput(t, bytes)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%d MiB of memory", took>>20)
		}
		if left := proc.Descendants(os.Getpid()); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if resting == 0 {
			resting = runtime.NumGoroutine() + 8
		}
		for until := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > resting; runtime.Gosched() {
			if time.Now().After(until) {
				stacks := make([]byte, 64<<10)
				t.Fatalf("%d goroutines are left, of %d:\n%s", runtime.NumGoroutine(), resting, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// serveFuzzInput runs one session from Hello to its end.
func serveFuzzInput(t *testing.T, bytes []byte) {
	dir := t.TempDir()
	ours, theirs := net.Pipe()
	conn := wire.NewConn(ours, wire.Launcher)
	sys := helper.System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}}
	over := make(chan error, 1)
	go func() { over <- helper.Serve(context.Background(), theirs, sys) }()
	if _, _, err := conn.ReceiveHello(); err != nil {
		t.Fatal(err)
	}
	received := make(chan wire.Message)
	go func() {
		defer conn.Abandon()
		for {
			m, err := conn.Recv()
			if err != nil {
				return
			}
			select {
			case received <- m:
			default:
			}
		}
	}()
	w := &fuzzInput{bytes, dir}
	w.sendAll(ours, conn, received)
	select {
	case <-over:
	case <-time.After(testTimeout):
		stacks := make([]byte, 256<<10)
		t.Fatalf("it is not over after %v:\n%s", testTimeout, stacks[:runtime.Stack(stacks, true)])
	}
}
