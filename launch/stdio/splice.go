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

// A spliceSource reads input from a pipe. The helpers of all ranks that receive it must be in this process. The source
// moves pages of the pipe to each rank without copying (splice(2), tee(2)), through one SpliceBuffer for each rank. It
// reads more input when all buffers are empty.
type spliceSource struct {
	f          *stdinFeeder
	in         *os.File
	buffers    map[int]*pipe.SpliceBuffer // by rank
	bytesTaken int                        // bytes read; counted until the pipes are widened
	widened    bool
}

const (
	maxBuffers   = 64      // each takes two descriptors
	wideBuffer   = 1 << 20 // size in bytes of a widened buffer
	maxWideTotal = 8 << 20 // of all buffers: the kernel allows a user 64 MiB in all pipes (pipe-user-pages-soft)
	widenFrom    = 4 * pipe.DefaultSize
)

// newSpliceSource returns a spliceSource. It returns nil if the input is not a pipe, if it has too many readers,
// or if a reader's helper is in another process.
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

func (p *spliceSource) limits() (maxBytes, minCredit int) { return wideBuffer, wideBuffer }

// readAndSend moves input into the smallest of the readers' buffers, duplicates it into the others, and sends it to the
// readers.
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

// errNoSplice is returned when pages cannot be spliced, so that the rest of the input must be copied.
var errNoSplice = errors.New("the input cannot be spliced")

// copyOut sends copies of the n bytes in t to all readers, and then returns errNoSplice.
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

// widenPipes enlarges the input pipe and the readers' buffers, so that processes have to wake up less often.
// It does not enlarge buffers of ranks that no longer read, because these may still be in use.
func (p *spliceSource) widenPipes(readers []StdinReader) {
	p.widened = true
	size := min(maxWideTotal/len(readers), wideBuffer)
	pipe.GrowPipe(p.in, size)
	for _, r := range readers {
		p.buffers[r.Rank].Grow(size)
	}
}

// sendSpliced sends the n bytes in buffers[source] to all ranks that still read. If the bytes cannot be
// duplicated, it sends nothing and returns false.
func (p *spliceSource) sendSpliced(source, n int) bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for _, r := range p.f.readers {
		if r.Rank != source && p.buffers[source].TeeTo(p.buffers[r.Rank], n) != nil {
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
