package stdio

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"

	"remshell/pipe"
	"remshell/wire"
)

// A passage is the intake of a pipe whose readers are all inside of this process. What is in the
// pipe goes to them without being copied, by a tank for each; more is taken when all tanks are empty.
type passage struct {
	f     *feeder
	in    *os.File
	tanks map[int]*pipe.Tank // by rank
	taken int                // bytes, until the pipes are wide
	wide  bool
}

const (
	tanksMost = 64      // two descriptors each
	wideMost  = 1 << 20 // bytes of a tank through which much flows
	wideAll   = 8 << 20 // of all tanks: the kernel lets a user have 64 MiB in all his pipes
	flowsFrom = 4 * pipe.Ordinary
)

// passage is nil where there can be none.
func (f *feeder) passage() *passage {
	in, ok := f.in.(*os.File)
	readers := f.reading()
	elsewhere := func(r Reader) bool { return !r.InProcess }
	if !ok || !pipe.Is(in) || len(readers) > tanksMost || slices.ContainsFunc(readers, elsewhere) {
		return nil
	}
	p := &passage{f: f, in: in, tanks: make(map[int]*pipe.Tank)}
	for _, r := range readers {
		t, err := pipe.New(pipe.Ordinary)
		if err != nil {
			p.close()
			return nil
		}
		p.tanks[r.Rank] = t
	}
	return p
}

func (p *passage) close() {
	for _, t := range p.tanks {
		t.Close()
	}
}

func (p *passage) bounds() (most, least int) { return wideMost, wideMost }

// take fills the smallest tank, and gives the others the same.
func (p *passage) take(int) error {
	readers := p.f.reading()
	if len(readers) == 0 {
		return nil
	}
	if p.taken >= flowsFrom && !p.wide {
		p.widen(readers)
	}
	least := slices.MinFunc(readers, func(a, b Reader) int { return cmp.Compare(p.tanks[a.Rank].Size(), p.tanks[b.Rank].Size()) }).Rank
	n, err := p.tanks[least].Fill(p.in)
	switch {
	case pipe.Refused(err):
		return errNoPassage
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	p.taken += n
	if !p.send(least, n) {
		return p.copyOut(p.tanks[least], n)
	}
	return nil
}

// errNoPassage says that pages cannot be handed on here: what comes next is to be copied.
var errNoPassage = errors.New("no passage")

// copyOut sends what a tank holds as a copy.
func (p *passage) copyOut(t *pipe.Tank, n int) error {
	buf := make([]byte, wire.Window)
	for n > 0 {
		got, err := t.Read(buf[:min(n, len(buf))])
		if err != nil {
			return err
		}
		p.f.send(buf[:got])
		n -= got
	}
	return errNoPassage
}

// widen lets all pipes hold more, the one that we read from and the ranks' own among them, so that
// nobody is woken for little. The tank of one who reads no more may be being poured out still, and is left alone.
func (p *passage) widen(readers []Reader) {
	p.wide = true
	size := min(wideAll/len(readers), wideMost)
	pipe.Widen(p.in, size)
	for _, r := range readers {
		p.tanks[r.Rank].Widen(size)
	}
}

// send gives all who still read the n bytes that one tank holds; false: nobody has got them, since
// the others cannot be given the same.
func (p *passage) send(full, n int) bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for _, r := range p.f.readers {
		if r.Rank != full && p.tanks[full].Share(p.tanks[r.Rank], n) != nil {
			return false
		}
	}
	p.f.taken += int64(n)
	for i := range p.f.readers {
		r := &p.f.readers[i]
		r.unread += n
		r.To(wire.InTank(r.Rank, p.tanks[r.Rank], n))
	}
	return true
}
