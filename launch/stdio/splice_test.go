//go:build linux

package stdio

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/pipe"
	"remshell/wire"
)

// A pouring is a rank of this process. It reads a sent buffer when the test lets it.
type pouring struct {
	r, w *os.File
	sent chan *wire.Data
}

func newPouring(t *testing.T) *pouring {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &pouring{r, w, make(chan *wire.Data, 10)}
}

func (p *pouring) send(m wire.Message) error {
	p.sent <- m.(*wire.Data)
	return nil
}

// read empties the buffer of a piece and returns what a rank reads of it.
func (p *pouring) read(t *testing.T, m *wire.Data) []byte {
	t.Helper()
	buf := make([]byte, m.Len())
	if n, err := m.WriteToFile(p.w); n != len(buf) || err != nil {
		t.Fatalf("%d of %d bytes, %v", n, len(buf), err)
	}
	if _, err := io.ReadFull(p.r, buf); err != nil {
		t.Fatal(err)
	}
	return buf
}

// Input from a pipe goes to ranks of this process through a SpliceBuffer for each. No more is read
// before the slowest rank has read. A rank that no longer reads does not delay the others.
func TestPipeIsSpliced(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, _ := open(t, job.Streams{}, in, Observers{})
	ranks := []*pouring{newPouring(t), newPouring(t), newPouring(t)}
	var readers []StdinReader
	for i, p := range ranks {
		readers = append(readers, StdinReader{Rank: i, To: p.send, InProcess: true})
	}
	s.SetStdinReaders(readers)
	s.FeedStdin(func(err error) { t.Error(err) })
	whole := bytes.Repeat([]byte("0123456789abcdef\n"), 3*widenFrom/17)
	go func() {
		feed.Write(whole)
		feed.Close()
	}()
	s.StdinReaderEnded(0, -1) // perhaps while its buffer is being filled
	var got [3][]byte
	for round := 0; ; round++ {
		slow, fast := <-ranks[1].sent, (*wire.Data)(nil)
		if len(got[2]) < 2*pipe.DefaultSize {
			if fast = <-ranks[2].sent; fast.Len() != slow.Len() {
				t.Fatalf("%d and %d bytes of one piece", slow.Len(), fast.Len())
			}
		}
		if slow.Len() == 0 {
			break
		}
		if fast != nil {
			got[2] = append(got[2], ranks[2].read(t, fast)...)
			s.CreditStdin(2, fast.Len())
			if len(got[2]) >= 2*pipe.DefaultSize {
				s.StdinReaderEnded(2, -1)
			}
		}
		if len(ranks[1].sent)+len(ranks[2].sent) > 0 {
			t.Fatalf("round %d: more was taken before one has read", round)
		}
		got[1] = append(got[1], ranks[1].read(t, slow)...)
		s.CreditStdin(1, slow.Len())
	}
	if !bytes.Equal(got[1], whole) || !bytes.HasPrefix(whole, got[2]) {
		t.Errorf("%d and %d of %d bytes, or not these", len(got[1]), len(got[2]), len(whole))
	}
}

// If pages cannot be spliced from the input, or duplicated to all readers, everything is copied
// instead and nothing is lost.
func TestSpliceFallback(t *testing.T) {
	for _, what := range []string{"not from there", "not to all"} {
		in := counter(t)
		f := newStdinFeeder(in)
		var a, b taker
		f.setReaders([]StdinReader{{Rank: 0, To: a.send, InProcess: true}, {Rank: 1, Node: 1, To: func(m wire.Message) error {
			in.Close() // ends the eventfd, which has no end of its own
			return b.send(m)
		}, InProcess: true}})
		p := &spliceSource{f: f, in: in, buffers: make(map[int]*pipe.SpliceBuffer)}
		for rank := range 2 {
			tank, err := pipe.NewSpliceBuffer(pipe.DefaultSize)
			if err != nil {
				t.Fatal(err)
			}
			p.buffers[rank] = tank
		}
		defer p.close()
		if what == "not to all" {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			w.WriteString("8 bytes.")
			w.Close()
			f.in, p.in = r, r
			full(t, p.buffers[1])
		}
		ended := make(chan error, 1)
		f.feedFrom(p, func(err error) { ended <- err })
		if close(ended); (<-ended == nil) != (what == "not to all") {
			t.Errorf("%s: the input ended otherwise", what)
		}
		for _, to := range []taker{a, b} {
			if len(to.got) == 0 || len(to.got[0].(*wire.Data).Bytes) != 8 {
				t.Errorf("%s: %v", what, to.got)
			}
		}
	}
}

// The buffer of a rank that no longer reads is not changed, because its helper may still use it.
func TestBufferOfAnEndedReaderIsNotGrown(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	f := newStdinFeeder(in)
	var reads taker
	f.setReaders([]StdinReader{{Rank: 0, To: reads.send, InProcess: true}, {Rank: 1, To: reads.send, InProcess: true}})
	p := f.newSpliceSource()
	if p == nil {
		t.Fatal("a pipe for ranks here is copied")
	}
	defer p.close()
	f.dropReader(1)
	p.bytesTaken = widenFrom
	before := [2]int{p.buffers[0].Size(), p.buffers[1].Size()}
	feed.WriteString("text")
	if err := p.readAndSend(wideBuffer); err != nil {
		t.Fatal(err)
	}
	if got := p.buffers[1].Size(); got != before[1] {
		t.Errorf("it holds %d bytes, %d before", got, before[1])
	}
	if p.buffers[0].Size() == before[0] {
		t.Log("this user has as many pages in pipes as he may: this shows nothing")
	}
}

// counter returns a file that cannot be spliced, with 8 bytes to read.
func counter(t *testing.T) *os.File {
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "eventfd")

	t.Cleanup(func() { file.Close() })
	return file
}

// full fills a buffer.
func full(t *testing.T, buffer *pipe.SpliceBuffer) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.Write(make([]byte, buffer.Size()))
	w.Close()
	if n, err := buffer.SpliceFrom(r); n != buffer.Size() || err != nil {
		t.Fatal(n, err)
	}
}

// Input is copied if it is no pipe, if a reader is on another node, or if too many buffers would be
// needed.
func TestWhatIsCopied(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for what, test := range map[string]struct {
		in      io.Reader
		readers []StdinReader
		handed  bool
	}{
		"a pipe for a rank here":     {in, []StdinReader{{InProcess: true}}, true},
		"a pipe for one elsewhere":   {in, []StdinReader{{InProcess: true}, {Rank: 1}}, false},
		"a device":                   {null, []StdinReader{{InProcess: true}}, false},
		"what is no file":            {new(bytes.Buffer), []StdinReader{{InProcess: true}}, false},
		"a pipe for very many ranks": {in, manyReaders(maxBuffers + 1), false},
	} {
		f := newStdinFeeder(test.in)
		f.setReaders(test.readers)
		before := openFiles(t)
		p := f.newSpliceSource()
		if p != nil {
			p.close()
		}
		if now := openFiles(t); now > before {
			t.Errorf("%s: %d files are open, %d before", what, now, before)
		}
		if (p != nil) != test.handed {
			t.Errorf("%s: handed on: %v", what, p != nil)
		}
	}
}

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func manyReaders(n int) (all []StdinReader) {
	for i := range n {
		all = append(all, StdinReader{Rank: i, InProcess: true})
	}
	return all
}
