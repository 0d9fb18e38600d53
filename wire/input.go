package wire

import (
	"bufio"
	"bytes"
	"io"
)

// Sizes of an input's buffer, in bytes: that of a connection which says little, as most of a
// large job do, and that of one on which output flows. In between it grows by steps.
const (
	inputLeast = 1 << 10
	inputMost  = 64 << 10
	inputStep  = 8
)

// An input is what a Conn reads from.
type input struct {
	*bufio.Reader
	from *fillings
}

// fillings is a stream that notes how much the last read has brought.
type fillings struct {
	io.Reader
	last int
}

func (f *fillings) Read(p []byte) (n int, err error) {
	n, err = f.Reader.Read(p)
	f.last = n
	return n, err
}

func newInput(r io.Reader) *input {
	from := &fillings{Reader: r}
	return &input{bufio.NewReaderSize(from, inputLeast), from}
}

// flows notes that a piece of output has come, and takes a larger buffer if there was more than
// this one takes.
func (in *input) flows() {
	size := in.Size()
	if size == inputMost || in.from.last < size {
		return
	}
	rest, _ := in.Peek(in.Buffered())
	in.Reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(rest)), in.from), size*inputStep)
}
