//go:build linux

package stdio

import (
	"bytes"
	"io"
	"os"
	"testing"

	"remshell/job"
	"remshell/pipe"
	"remshell/wire"
)

// A rank of this process, which pours out what it is sent when the test lets it.
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

// read pours a piece out and returns what a rank reads of it.
func (p *pouring) read(t *testing.T, m *wire.Data) []byte {
	t.Helper()
	buf := make([]byte, m.Len())
	if n, err := m.Pour(p.w); n != len(buf) || err != nil {
		t.Fatalf("%d of %d bytes, %v", n, len(buf), err)
	}
	if _, err := io.ReadFull(p.r, buf); err != nil {
		t.Fatal(err)
	}
	return buf
}

// What comes by a pipe for ranks of this process goes to each of them by a tank, and no more is
// taken before the slowest has read; who reads no more is waited for no longer, wherever it stands.
func TestAPipeIsHandedOn(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, _ := open(t, job.Streams{}, in, Told{})
	ranks := []*pouring{newPouring(t), newPouring(t), newPouring(t)}
	var readers []Reader
	for i, p := range ranks {
		readers = append(readers, Reader{Rank: i, To: p.send, InProcess: true})
	}
	s.LetRead(readers)
	s.Feed(func(err error) { t.Error(err) })
	whole := bytes.Repeat([]byte("0123456789abcdef\n"), 3*flowsFrom/17)
	go func() {
		feed.Write(whole)
		feed.Close()
	}()
	s.Drop(0) // perhaps while its tank is being filled
	var got [3][]byte
	for round := 0; ; round++ {
		slow, fast := <-ranks[1].sent, (*wire.Data)(nil)
		if len(got[2]) < 2*pipe.Ordinary {
			if fast = <-ranks[2].sent; fast.Len() != slow.Len() {
				t.Fatalf("%d and %d bytes of one piece", slow.Len(), fast.Len())
			}
		}
		if slow.Len() == 0 {
			break
		}
		if fast != nil {
			got[2] = append(got[2], ranks[2].read(t, fast)...)
			s.Read(2, fast.Len())
			if len(got[2]) >= 2*pipe.Ordinary {
				s.Drop(2)
			}
		}
		if len(ranks[1].sent)+len(ranks[2].sent) > 0 {
			t.Fatalf("round %d: more was taken before one has read", round)
		}
		got[1] = append(got[1], ranks[1].read(t, slow)...)
		s.Read(1, slow.Len())
	}
	if !bytes.Equal(got[1], whole) || !bytes.HasPrefix(whole, got[2]) {
		t.Errorf("%d and %d of %d bytes, or not these", len(got[1]), len(got[2]), len(whole))
	}
}

// A pipe whose readers are not all here, or that would need too many tanks, is copied; so is all
// else than a pipe.
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
		readers []Reader
		handed  bool
	}{
		"a pipe for a rank here":     {in, []Reader{{InProcess: true}}, true},
		"a pipe for one elsewhere":   {in, []Reader{{InProcess: true}, {Rank: 1}}, false},
		"a device":                   {null, []Reader{{InProcess: true}}, false},
		"what is no file":            {new(bytes.Buffer), []Reader{{InProcess: true}}, false},
		"a pipe for very many ranks": {in, manyReaders(tanksMost + 1), false},
	} {
		f := newFeeder(test.in)
		f.let(test.readers)
		p := f.passage()
		if p != nil {
			p.close()
		}
		if (p != nil) != test.handed {
			t.Errorf("%s: handed on: %v", what, p != nil)
		}
	}
}

func manyReaders(n int) (all []Reader) {
	for i := range n {
		all = append(all, Reader{Rank: i, InProcess: true})
	}
	return all
}
