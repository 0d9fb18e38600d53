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

// A spliceSource is the intake of a pipe whose readers are all inside of this process. What is in the
// pipe goes to them without being copied, by a tank for each; more is taken when all tanks are empty.
type spliceSource struct {
	f          *stdinFeeder
	in         *os.File
	buffers    map[int]*pipe.SpliceBuffer // by rank
	bytesTaken int                        // bytes, until the pipes are wide
	widened    bool
}

const (
	maxBuffers   = 64      // two descriptors each
	wideBuffer   = 1 << 20 // bytes of a tank through which much flows
	maxWideTotal = 8 << 20 // of all tanks: the kernel lets a user have 64 MiB in all his pipes
	widenFrom    = 4 * pipe.DefaultSize
)

// newSpliceSource is nil where there can be none.
func (f *stdinFeeder) newSpliceSource() *spliceSource {
	in, ok := f.in.(*os.File)
	readers := f.activeReaders()
	elsewhere := func(r StdinReader) bool { return !r.InProcess }
	if !ok || !pipe.IsPipe(in) || len(readers) > maxBuffers || slices.ContainsFunc(readers, elsewhere) {
		return nil
	}
	p := &spliceSource{f: f, in: in, buffers: make(map[int]*pipe.SpliceBuffer)}
	for _, r := range readers {
		t, err := pipe.NewSpliceBuffer(pipe.DefaultSize)
		if err != nil {
			p.close()
			return nil
		}
		p.buffers[r.Rank] = t
	}
	return p
}

func (p *spliceSource) close() {
	for _, t := range p.buffers {
		t.Close()
	}
}

func (p *spliceSource) limits() (most, least int) { return wideBuffer, wideBuffer }

// readAndSend fills the smallest tank, and gives the others the same.
func (p *spliceSource) readAndSend(int) error {
	readers := p.f.activeReaders()
	if len(readers) == 0 {
		return nil
	}
	if p.bytesTaken >= widenFrom && !p.widened {
		p.widenPipes(readers)
	}
	least := slices.MinFunc(readers, func(a, b StdinReader) int { return cmp.Compare(p.buffers[a.Rank].Size(), p.buffers[b.Rank].Size()) }).Rank
	n, err := p.buffers[least].SpliceFrom(p.in)
	switch {
	case pipe.IsUnsupported(err):
		return errNoSplice
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	p.bytesTaken += n
	if !p.sendSpliced(least, n) {
		return p.copyOut(p.buffers[least], n)
	}
	return nil
}

// errNoSplice says that pages cannot be handed on here: what comes next is to be copied.
var errNoSplice = errors.New("no passage")

// copyOut sends what a tank holds as a copy.
func (p *spliceSource) copyOut(t *pipe.SpliceBuffer, n int) error {
	buf := make([]byte, wire.Window)
	for n > 0 {
		got, err := t.Read(buf[:min(n, len(buf))])
		if err != nil {
			return err
		}
		p.f.sendToAll(buf[:got])
		n -= got
	}
	return errNoSplice
}

// widenPipes lets all pipes hold more, the one that we read from and the ranks' own among them, so that
// nobody is woken for little. The tank of one who reads no more may be being poured out still, and is left alone.
func (p *spliceSource) widenPipes(readers []StdinReader) {
	p.widened = true
	size := min(maxWideTotal/len(readers), wideBuffer)
	pipe.GrowPipe(p.in, size)
	for _, r := range readers {
		p.buffers[r.Rank].Grow(size)
	}
}

// sendSpliced gives all who still read the n bytes that one tank holds; false: nobody has got them, since
// the others cannot be given the same.
func (p *spliceSource) sendSpliced(full, n int) bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for _, r := range p.f.readers {
		if r.Rank != full && p.buffers[full].TeeTo(p.buffers[r.Rank], n) != nil {
			return false
		}
	}
	p.f.bytesTaken += int64(n)
	for i := range p.f.readers {
		r := &p.f.readers[i]
		r.unread += n
		r.To(wire.SplicedData(r.Rank, p.buffers[r.Rank], n))
	}
	return true
}
