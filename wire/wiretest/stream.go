package wiretest

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"strings"

	"remshell/wire"
)

// AnySide receives messages of either side.
const AnySide wire.Side = 0

// ReadOnly is a stream of what its reader has, which takes whatever is written.
type ReadOnly struct{ io.Reader }

func (ReadOnly) Write(p []byte) (int, error) { return len(p), nil }

func (ReadOnly) Close() error { return nil }

// Receive returns the first message of a stream and the bytes of memory that reading it took.
func Receive(stream []byte, self wire.Side) (m wire.Message, err error, took uint64) {
	c := wire.NewConn(ReadOnly{bytes.NewReader(stream)}, self)
	defer c.Abandon()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err = c.Recv()
	runtime.ReadMemStats(&after)
	return m, err, after.TotalAlloc - before.TotalAlloc
}

// IsInvalidValue reports whether err is a Violation because of an invalid value, and has these words.
func IsInvalidValue(err error, words string) bool {
	v, ok := err.(wire.Violation)
	return ok && strings.Contains(string(v), " that cannot be: ") && strings.Contains(string(v), words)
}

// RowOf returns the row of a message in the table of kinds.
func RowOf(m wire.Message) wire.Kind {
	all := wire.Kinds()
	return all[slices.IndexFunc(all, func(k wire.Kind) bool { return k.Name == wire.NameOf(m) })]
}
