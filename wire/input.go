package wire

import (
	"bufio"
	"bytes"
	"io"
)

// Sizes of an input's buffer, in bytes: that of a connection which says little, as most of a
// large job do, and that of one on which output flows. In between it grows by steps.
const (
	minInputBuffer = 1 << 10
	maxInputBuffer = 64 << 10
	inputGrowth    = 8
)

// An input is what a Conn reads from.
type input struct {
	*bufio.Reader
	counter *countingReader
}

// countingReader is a stream that notes how much the last read has brought.
type countingReader struct {
	io.Reader
	last int
}

func (f *countingReader) Read(p []byte) (n int, err error) {
	n, err = f.Reader.Read(p)
	f.last = n
	return n, err
}

func newInput(r io.Reader) *input {
	from := &countingReader{Reader: r}
	return &input{bufio.NewReaderSize(from, minInputBuffer), from}
}

// growForOutput notes that a piece of output has come, and takes a larger buffer if there was more than
// this one takes.
func (in *input) growForOutput() {
	size := in.Size()
	if size == maxInputBuffer || in.counter.last < size {
		return
	}
	rest, _ := in.Peek(in.Buffered())
	in.Reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(rest)), in.counter), size*inputGrowth)
}
