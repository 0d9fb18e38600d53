package stdio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"remshell/job"
	"remshell/launch/stdio/pattern"
	"remshell/usererr"
	"remshell/wire"
)

// some returns n ranks of one group, whose rank 0 has number first in the job.
func some(n, group, first int) GroupRanks {
	return GroupRanks{first, n, func() (who []pattern.RankInfo) {
		for i := range n {
			who = append(who, pattern.RankInfo{Number: first + i, Rank: i, Size: n, Group: group, Host: "n"})
		}
		return who
	}}
}

// open returns streams of two ranks, in a test with synthetic time. Their output goes to out.
func open(t *testing.T, wanted job.Streams, in io.Reader, observers Observers) (s *Streams, out *bytes.Buffer) {
	t.Helper()
	out = new(bytes.Buffer)
	s = New(in, Stdout(out), Stderr(io.Discard))
	t.Cleanup(s.err.Close)
	t.Cleanup(s.out.Close)
	t.Cleanup(s.Close)
	if err := s.Open(wanted, some(2, 0, 0), observers); err != nil {
		t.Fatal(err)
	}
	return s, out
}

// A taker is a helper that records the messages sent to it.
type taker struct{ got []wire.Message }

func (h *taker) send(m wire.Message) error {
	h.got = append(h.got, m)
	return nil
}

// Credit goes to the Sender that came with the output, in large steps, once the output is written.
func TestCreditGoesBackTheSameWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := open(t, job.Streams{}, nil, Observers{})
		var a, b taker
		step := WindowSize(2) / 4
		s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: bytes.Repeat([]byte("x\n"), step/2-1)}, a.send)
		s.HandleData(&wire.Data{Rank: 1, Stream: wire.Stdout, Bytes: []byte("y\n")}, b.send)
		synctest.Wait()
		if len(a.got)+len(b.got) > 0 {
			t.Errorf("credit in small steps: %v %v", a.got, b.got)
		}
		s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: []byte("x\n")}, a.send)
		synctest.Wait()
		if len(a.got) != 1 || *a.got[0].(*wire.Credit) != (wire.Credit{Rank: 0, Stream: wire.Stdout, Bytes: step}) || len(b.got) > 0 {
			t.Errorf("credit %v and %v", a.got, b.got)
		}
		if out.Len() != step+2 {
			t.Errorf("%d bytes written", out.Len())
		}
	})
}

// The slowest of two readers limits how far input is read ahead. A rank that no longer reads does
// not delay the other.
func TestInputIsReadAsFastAsTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := bytes.NewReader(make([]byte, 3*wire.Window))
		s, _ := open(t, job.Streams{}, in, Observers{})
		var a, b taker
		s.SetStdinReaders([]StdinReader{{Rank: 0, To: a.send}, {Rank: 1, Node: 1, To: b.send}})
		s.FeedStdin(func(err error) { t.Error(err) })
		for _, step := range []struct {
			what string
			do   func()
			left int
		}{
			{"at first", func() {}, 2 * wire.Window},
			{"one has read", func() { s.CreditStdin(0, wire.Window) }, 2 * wire.Window},
			{"the other, a little", func() { s.CreditStdin(1, 10) }, 2*wire.Window - 10},
			{"the other reads no more", func() { s.HandleData(&wire.Data{Rank: 1, Stream: wire.Stdin}, b.send) }, wire.Window},
			{"one has read all", func() { s.CreditStdin(0, wire.Window) }, 0},
		} {
			step.do()
			if synctest.Wait(); in.Len() != step.left {
				t.Errorf("%s: %d bytes are left, want %d", step.what, in.Len(), step.left)
			}
		}
		s.CreditStdin(0, 1)
		synctest.Wait()
		if last := a.got[len(a.got)-1].(*wire.Data); len(last.Bytes) > 0 {
			t.Errorf("the end of the input is %d bytes", len(last.Bytes))
		}
	})
}

// Input for several ranks of a node is sent there once, for those that still read.
func TestInputGoesToANodeOnce(t *testing.T) {
	var a, b taker
	f := newStdinFeeder(nil)
	f.setReaders([]StdinReader{{Rank: 0, To: a.send}, {Rank: 1, To: a.send}, {Rank: 2, Node: 1, To: b.send}, {Rank: 3, To: b.send, Node: 1}, {Rank: 5, To: b.send, Node: 1}})
	f.sendToAll([]byte("all"))
	f.dropReader(0)
	f.dropReader(3)
	f.sendToAll([]byte("some"))
	f.sendToAll(nil)
	want := [][]wire.Message{
		{&wire.StdinBroadcast{Ranks: []int{0, 1}, Bytes: []byte("all")}, &wire.Data{Rank: 1, Bytes: []byte("some")}, &wire.Data{Rank: 1}},
		{&wire.StdinBroadcast{Ranks: []int{2, 3, 5}, Bytes: []byte("all")}, &wire.StdinBroadcast{Ranks: []int{2, 5}, Bytes: []byte("some")}, &wire.StdinBroadcast{Ranks: []int{2, 5}}},
	}
	if got := [][]wire.Message{a.got, b.got}; !reflect.DeepEqual(got, want) {
		t.Errorf("sent %v", got)
	}
	for _, r := range f.activeReaders() {
		if r.unread != 7 {
			t.Errorf("rank %d has %d bytes to read, want 7", r.Rank, r.unread)
		}
	}
}

// An input that fails is not at its end. If no rank wants the rest, the failure is not reported.
func TestInputThatCannotBeRead(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			s, _ := open(t, job.Streams{}, r, Observers{})
			var a taker
			var failed error
			s.SetStdinReaders([]StdinReader{{Rank: 0, To: a.send}})
			s.FeedStdin(func(err error) { failed = err })
			synctest.Wait()
			if !wanted {
				s.StdinReaderEnded(0, -1)
			}
			w.CloseWithError(errors.New("broken"))
			if synctest.Wait(); (failed != nil) != wanted || len(a.got) > 0 {
				t.Errorf("wanted: %v; told: %v, sent: %v", wanted, failed, a.got)
			}
		})
	}
}

// A file that cannot be written to is reported, also one for stderr. A closed stderr is not.
func TestAFileThatTakesNoMore(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	full := make(chan error, 1)
	s, _ := open(t, job.Streams{Err: job.Output{File: "/dev/full"}}, nil,
		Observers{OnFileFailed: func(err error) { full <- err }, OnStdoutGone: func(err error) { t.Error(err) }})
	s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stderr, Bytes: []byte("x\n")}, new(taker).send)
	if err := <-full; !strings.Contains(err.Error(), "/dev/full") {
		t.Error(err)
	}
	if got := s.StderrTail(0); got != "x\n" {
		t.Errorf("last words %q", got)
	}
}

// Impossible options are reported before anything is started, with a hint.
func TestStreamsThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		wanted     job.Streams
		text, hint string
	}{
		"a rank that is not": {job.Streams{Stdin: job.RankSet{{First: 2, Last: 2}}}, "-stdin: there is no rank 2", "ranks are 0 to 1"},
		"no folder":          {job.Streams{Out: job.Output{File: file + "/%r/out"}}, "cannot write the output of rank 0: mkdir " + file + ": not a directory", "choose a folder that you can write to"},
	} {
		s := New(nil, Stdout(io.Discard), Stderr(io.Discard))
		err := s.Open(test.wanted, some(2, 0, 0), Observers{})
		if err == nil || err.Error() != test.text || usererr.Hint(err) != test.hint {
			t.Errorf("%s: %v; %s", what, err, usererr.Hint(err))
		}
		s.err.Close()
		s.out.Close()
		s.Close()
	}
}

// A spawned group has files and labels like the job. A group that is not started leaves no file
// open, and its files can be opened again.
func TestSpawnedGroupOutput(t *testing.T) {
	dir := t.TempDir()
	wanted := job.Streams{Out: job.Output{File: filepath.Join(dir, "%g.%r"), Label: "%r "}}
	s, _ := open(t, wanted, nil, Observers{})
	never, err := s.PrepareGroup(wanted, some(1, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	never.Close()
	g, err := s.PrepareGroup(wanted, some(1, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	s.AddGroup(g)
	s.HandleData(&wire.Data{Rank: 2, Stream: wire.Stdout, Bytes: []byte("hello\n")}, new(taker).send)
	s.RankEnded(2)
	s.out.Close()
	<-s.out.Done()
	if text, err := os.ReadFile(filepath.Join(dir, "1.0")); err != nil || string(text) != "1:0 hello\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// In a shell loop over the lines of a file, a job whose ranks read nothing leaves the file's
// position unchanged.
func TestInputThatNoRankReadIsGivenBack(t *testing.T) {
	const size = 100
	type over struct {
		rank int
		read int64
	}
	for _, test := range []struct {
		name        string
		over        []over
		left, lost  int64 // bytes left of a file; bytes lost of a pipe
		nobodyElses bool  // the reader has closed its input before
	}{
		{"nothing was read", []over{{0, 0}, {1, 0}}, size, size, false},
		{"nothing was read, and it was closed", []over{{0, 0}, {1, 0}}, size, size, true},
		{"some was read", []over{{0, 10}, {1, 30}}, size - 30, 0, false},
		{"all was read", []over{{0, size}, {1, 0}}, 0, 0, false},
		{"the count of one is unknown", []over{{0, 10}, {1, -1}}, 0, 0, false},
		{"one is lost", []over{{0, 10}}, 0, 0, false},
		{"more than there was", []over{{0, size + 1}, {1, 0}}, 0, 0, false},
		{"others do not count", []over{{0, 10}, {1, 0}, {2, size}}, size - 10, 0, false},
	} {
		for _, piped := range []bool{false, true} {
			in, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if !piped {
				in.Close()
				w.Close()
				if in, err = os.CreateTemp(t.TempDir(), ""); err != nil {
					t.Fatal(err)
				}
				w = in
			}
			w.Write(make([]byte, size))
			if piped {
				w.Close()
			} else {
				in.Seek(0, io.SeekStart)
			}
			s, _ := open(t, job.Streams{}, in, Observers{})
			ended := make(chan struct{}, 2)
			send := func(m wire.Message) error {
				if m.(*wire.StdinBroadcast).Bytes == nil {
					ended <- struct{}{}
				}
				return nil
			}
			s.SetStdinReaders([]StdinReader{{Rank: 0, To: send}, {Rank: 1, To: send}})
			s.FeedStdin(func(err error) { t.Error(err) })
			<-ended
			if test.nobodyElses {
				s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdin}, nil)
			}
			for _, o := range test.over {
				s.StdinReaderEnded(o.rank, o.read)
			}
			lost := s.SeekStdinBack()
			if rest, err := io.ReadAll(in); piped && lost != test.lost || !piped && (lost != 0 || int64(len(rest)) != test.left) || err != nil {
				t.Errorf("%s, a pipe: %v: %d bytes lost, %d left, %v; want %d and %d", test.name, piped, lost, len(rest), err, test.lost, test.left)
			}
			in.Close()
		}
	}
	if lost := New(nil, nil, nil).SeekStdinBack(); lost != 0 {
		t.Errorf("of no input %d bytes are lost", lost)
	}
}

// ReleaseOutput writes its text before the held output of both streams, even if the ranks wrote
// first (--report-bindings).
func TestReleaseComesBeforeHeldOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both shared
		s := New(nil, Stdout(&both), Stderr(&both))
		if err := s.Open(job.Streams{}, some(2, 0, 0), Observers{}); err != nil {
			t.Fatal(err)
		}
		var helper taker
		s.HoldOutput()
		s.HoldOutput() // for a spawn
		s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: []byte("out of 0\n")}, helper.send)
		s.RankEnded(0)
		synctest.Wait()
		s.HandleData(&wire.Data{Rank: 1, Stream: wire.Stderr, Bytes: []byte("err of 1\n")}, helper.send)
		s.err.Write([]byte("ours\n"))
		synctest.Wait()
		s.ReleaseOutput("rank 0\nrank 1\n")
		synctest.Wait()
		if both.String() != "ours\nrank 0\nrank 1\n" {
			t.Errorf("written before all is known: %q", both.String())
		}
		s.ReleaseOutput("rank 1:0\n")
		synctest.Wait()
		got := both.String()
		rest, first := strings.CutPrefix(got, "ours\nrank 0\nrank 1\nrank 1:0\n")
		if !first || rest != "out of 0\nerr of 1\n" && rest != "err of 1\nout of 0\n" {
			t.Errorf("written is %q", got)
		}
		s.Close()
		s.out.Close()
		s.err.Close()
	})
}

// A shared is a buffer for several printers.
type shared struct {
	mu sync.Mutex // guards the text
	strings.Builder
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Builder.Write(p)
}

// Held output waits for the text of ReleaseOutput, also if the job ends before that is written. On a loaded machine the
// output of a short job came before the lines of --report-bindings.
func TestReleaseComesBeforeHeldOutputAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both shared
		slow := &slowWriter{w: &both, let: make(chan struct{})}
		s := New(nil, Stdout(&both), Stderr(slow))
		if err := s.Open(job.Streams{}, some(1, 0, 0), Observers{}); err != nil {
			t.Fatal(err)
		}
		var helper taker
		s.HoldOutput()
		s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: []byte("out of 0\n")}, helper.send)
		s.RankEnded(0)
		s.ReleaseOutput("rank 0\n")
		s.Close()
		s.out.Close()
		s.err.Close()
		synctest.Wait()
		close(slow.let)
		<-s.out.Done()
		<-s.err.Done()
		if got := both.String(); got != "rank 0\nout of 0\n" {
			t.Errorf("written is %q", got)
		}
	})
}

// A slowWriter writes nothing before let is closed.
type slowWriter struct {
	w   io.Writer
	let chan struct{}
}

func (s *slowWriter) Write(p []byte) (int, error) {
	<-s.let
	return s.w.Write(p)
}

// A job that ends while output is held writes all of it.
func TestHeldOutputIsWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := open(t, job.Streams{}, nil, Observers{})
		var helper taker
		s.HoldOutput()
		s.HandleData(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: []byte("out of 0")}, helper.send)
		s.RankEnded(0)
		s.out.Close()
		<-s.out.Done()
		if out.String() != "out of 0" {
			t.Errorf("written is %q", out.String())
		}
	})
}
