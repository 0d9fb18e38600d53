//go:build linux

package helper

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/pipe"
	"remshell/wire"
)

// newSilentSession returns a session that receives nothing and whose messages are dropped.
func newSilentSession() *Session {
	here, there := net.Pipe()
	go io.Copy(io.Discard, there)
	return &Session{conn: wire.NewConn(here, wire.Helper), events: make(chan any, 64), done: make(chan struct{})}
}

// A sentMessages records the messages that are sent.
type sentMessages struct {
	mu       sync.Mutex
	bytes    []byte
	eof      int // number of empty Data
	credited int // bytes of Credit
	more     chan struct{}
}

func newSentMessages() *sentMessages { return &sentMessages{more: make(chan struct{}, 1)} }

func (r *sentMessages) send(m wire.Message) error {
	r.mu.Lock()
	switch m := m.(type) {
	case *wire.Data:
		r.bytes = append(r.bytes, m.Bytes...)
		if len(m.Bytes) == 0 {
			r.eof++
		}
	case *wire.Credit:
		r.credited += m.Bytes
	}
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
	return nil
}

func (r *sentMessages) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bytes)
}

// await waits until ok returns true.
func (r *sentMessages) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(testTimeout)
	for {
		r.mu.Lock()
		done := ok()
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.more:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// testPipe returns both ends of a pipe. The end with index ours is nonblocking.
func testPipe(t *testing.T, ours int) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(fds[ours], true)
	r, w = os.NewFile(uintptr(fds[0]), "read end"), os.NewFile(uintptr(fds[1]), "write end")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func awaitClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("waited in vain for %s", what)
	}
}

func TestOutputIsNeverMoreThanAWindowAhead(t *testing.T) {
	r, w := testPipe(t, 0)
	rec := newSentMessages()
	s := newOutputStream(0, wire.Stdout, r, wire.Window, rec.send)
	const total = 5*wire.Window + 12345
	go func() {
		w.Write(make([]byte, total))
		w.Close()
	}()
	ended := make(chan struct{})
	go func() { s.run(); close(ended) }()
	leave := wire.Window
	for _, grant := range []int{0, 1, 10, wire.Window, 3 * wire.Window, wire.Window} {
		s.addCredit(grant)
		leave += grant
		want := min(leave, total)
		rec.await(t, "all it has leave for", func() bool { return len(rec.bytes) >= want })
		if got := rec.size(); got > leave {
			t.Fatalf("%d bytes sent with leave for %d", got, leave)
		}
	}
	awaitClosed(t, "the end", ended)
	if rec.size() != total {
		t.Errorf("%d bytes came, want %d", rec.size(), total)
	}
}

// It waits without reading ahead. Data without credit stays in the pipe, where it blocks the rank.
func TestOutputWithoutCreditIsNotRead(t *testing.T) {
	r, w := testPipe(t, 0)
	rec := newSentMessages()
	s := newOutputStream(0, wire.Stdout, r, wire.Window, rec.send)
	go s.run()
	w.Write(make([]byte, wire.Window))
	rec.await(t, "the first window", func() bool { return len(rec.bytes) == wire.Window })
	w.Write([]byte("more"))
	var waiting int
	for range 1000 { // enough for a wrong implementation to read it
		waiting, _ = unix.IoctlGetInt(int(w.Fd()), unix.TIOCINQ)
	}
	if waiting != 4 || rec.size() != wire.Window {
		t.Errorf("%d bytes in the pipe and %d sent, want 4 and %d", waiting, rec.size(), wire.Window)
	}
	s.discardRest()
}

// A pipe that has passed much data is enlarged to what may be under way, as long as the pool lasts. The size returns
// to the pool at its end.
func TestAPipeWithMuchOutputHoldsMore(t *testing.T) {
	const window = 4 * wire.Window
	pool := pipe.NewSizePool(window)
	for _, c := range []struct {
		what  string
		bytes int
		wide  bool
	}{{"little", growAfter - 2, false}, {"much", growAfter, true}, {"much, behind one that is over", growAfter, true}} {
		r, w := testPipe(t, 0)
		rec := newSentMessages()
		s := newOutputStream(0, wire.Stdout, r, window, rec.send)
		s.pipeSize = pipeGrowth{pool: pool, wanted: window}
		go s.run()
		w.Write(make([]byte, c.bytes))
		rec.await(t, c.what, func() bool { return len(rec.bytes) == c.bytes })
		w.Write([]byte("x"))
		s.addCredit(window)
		rec.await(t, c.what, func() bool { return len(rec.bytes) == c.bytes+1 })
		if holds := pipe.GrowPipe(w, 0); (holds == window) != c.wide {
			if c.wide && pipe.GrowPipe(w, window) < window {
				t.Skip("this user has as many pages in pipes as he may")
			}
			t.Errorf("%s: the pipe holds %d bytes", c.what, holds)
		}
		w.Close()
		awaitClosed(t, "the end", s.ended)
	}
}

func TestTheRestOfOutputDoesNotWaitForALeftoverChild(t *testing.T) {
	r, w := testPipe(t, 0) // w stays open, as if a child held it
	rec := newSentMessages()
	s := newOutputStream(0, wire.Stdout, r, wire.Window, rec.send)
	go s.run()
	w.Write([]byte("said before"))
	rec.await(t, "what was said before", func() bool { return len(rec.bytes) == 11 })
	if isClosed(s.drained) {
		t.Fatal("drained while the rank lives")
	}
	w.Write([]byte(", last word"))
	s.RankExited()
	awaitClosed(t, "the last word", s.drained)
	if rec.size() != 22 {
		t.Errorf("drained after %q", rec.bytes)
	}
	w.Write([]byte(", and its child"))
	rec.await(t, "what the child says", func() bool { return len(rec.bytes) == 37 })
}

func TestDiscardedOutputIsRead(t *testing.T) {
	r, w := testPipe(t, 0)
	rec := newSentMessages()
	s := newOutputStream(0, wire.Stdout, r, wire.Window, rec.send)
	ended := make(chan struct{})
	go func() { s.run(); close(ended) }()
	w.Write(make([]byte, wire.Window))
	rec.await(t, "the window", func() bool { return len(rec.bytes) == wire.Window })
	s.discardRest() // it waits for credit
	w.Write(make([]byte, 10*wire.Window))
	w.Close()
	awaitClosed(t, "the end", ended)
	if rec.size() != wire.Window {
		t.Errorf("%d bytes sent, want none after the first window", rec.size()-wire.Window)
	}
}

func TestStdinBeforeTheRankRuns(t *testing.T) {
	r, w := testPipe(t, 1)
	rec := newSentMessages()
	s := newStdinWriter(0, rec.send)
	s.addPiece(&wire.Data{Bytes: []byte("early ")})
	go s.run(w)
	s.addPiece(&wire.Data{Bytes: []byte("late")})
	s.addPiece(&wire.Data{})
	s.addPiece(&wire.Data{Bytes: []byte("too late")})
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "early late" {
		t.Errorf("the rank read %q, %v", got, err)
	}
	rec.await(t, "credit for all", func() bool { return rec.credited == 10 })
}

func TestStdinThatNobodyReadsIsReported(t *testing.T) {
	r, w := testPipe(t, 1)
	rec := newSentMessages()
	s := newStdinWriter(0, rec.send)
	r.Close()
	s.addPiece(&wire.Data{Bytes: []byte("text")})
	s.run(w)
	if rec.eof != 1 || rec.credited != 0 {
		t.Errorf("it sent %d ends and credit for %d bytes, want 1 and 0", rec.eof, rec.credited)
	}
}

func TestStdinOfADeadRankDoesNotWaitForItsChild(t *testing.T) {
	_, w := testPipe(t, 1) // the read end is held by the child, which does not read
	s := newStdinWriter(0, newSentMessages().send)
	ended := make(chan struct{})
	go func() { s.run(w); close(ended) }()
	for range 4 {
		s.addPiece(&wire.Data{Bytes: make([]byte, wire.Window)}) // more than a pipe holds
	}
	s.close()
	awaitClosed(t, "the end", ended)
}

func TestPMIIsAnsweredWhenTheRankIsGone(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "PMI_FD") // a child holds it
	defer theirs.Close()
	c := newPMIConn(os.NewFile(uintptr(pair[0]), "ours"))
	theirs.Write([]byte("cmd=abort\n"))
	c.RankExited()
	buf := make([]byte, 100)
	if n, err := c.Read(buf); string(buf[:n]) != "cmd=abort\n" || err != nil {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
	if isClosed(c.answered) {
		t.Fatal("answered before it was")
	}
	read := make(chan string)
	go func() {
		n, err := c.Read(buf)
		read <- string(buf[:n])
		if _, err = c.Read(buf); err != io.EOF {
			t.Errorf("at the end: %v, want EOF", err)
		}
		c.Close()
		close(read)
	}()
	awaitClosed(t, "the answer", c.answered)
	theirs.Write([]byte("child\n"))
	if got := <-read; got != "child\n" {
		t.Errorf("the child said %q", got)
	}
	theirs.Close()
	<-read
}

// consumedBytes is right whether a rank has read all of its input, a part, or has closed it early.
func TestHowMuchARankHasRead(t *testing.T) {
	const size = 1000
	for _, test := range []struct {
		name        string
		reads       int
		early, ends bool // it closes its input while more comes; the input ends
		terminal    string
		want        int64
	}{
		{"nothing", 0, false, true, "", 0},
		{"a part", 10, false, true, "", 10},
		{"all", size, false, true, "", size},
		{"nothing, and more could come", 0, false, false, "", 0},
		{"a part, and more could come", 10, false, false, "", 10},
		{"closed at once", 0, true, false, "", 0},
		{"closed behind a part", 10, true, false, "", 10},
		{"a terminal", 10, false, true, "\x04", -1},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		sent := newSentMessages()
		s := newStdinWriter(0, sent.send)
		s.eofText = test.terminal
		go s.run(w)
		s.addPiece(&wire.Data{Stream: wire.Stdin, Bytes: make([]byte, size)})
		sent.await(t, test.name, func() bool { return sent.credited == size })
		if _, err := io.ReadFull(r, make([]byte, test.reads)); err != nil {
			t.Fatal(err)
		}
		if test.early {
			r.Close()
			s.addPiece(&wire.Data{Stream: wire.Stdin, Bytes: make([]byte, size)})
			<-s.done
		}
		if test.ends {
			s.addPiece(&wire.Data{Stream: wire.Stdin})
			<-s.done
		}
		s.close()
		<-s.done
		if got := s.consumedBytes(); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
		r.Close()
	}
	if got := newStdinWriter(0, nil).consumedBytes(); got != -1 {
		t.Errorf("of a rank that nobody has written to: %d", got)
	}
}
