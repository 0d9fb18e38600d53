package wire

import (
	"bufio"
	"bytes"
	"io"
)

// These are the sizes of the read buffer in bytes. Most connections of a large job carry few messages and keep the
// smallest buffer. The buffer of a connection that carries output grows by a factor of inputGrowth at a time, up to
// the largest size.
const (
	minInputBuffer = 1 << 10
	maxInputBuffer = 64 << 10
	inputGrowth    = 8
)

// An input is the buffered reader of a Conn.
type input struct {
	*bufio.Reader
	counter *countingReader
}

// A countingReader is a reader that records how many bytes the last read returned.
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

// growForOutput enlarges the buffer if the last read has filled it. It is called when a piece of output has
// arrived.
func (in *input) growForOutput() {
	size := in.Size()
	if size == maxInputBuffer || in.counter.last < size {
		return
	}
	rest, _ := in.Peek(in.Buffered())
	in.Reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(rest)), in.counter), size*inputGrowth)
}
