package wiretest

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"strings"

	"remshell/wire"
)

// AnySide is a Side that may receive the messages of both sides.
const AnySide wire.Side = 0

// A ReadOnly is a stream whose input comes from a Reader and that discards what is written.
type ReadOnly struct{ io.Reader }

func (ReadOnly) Write(p []byte) (int, error) { return len(p), nil }

func (ReadOnly) Close() error { return nil }

// Receive returns the first message of a stream. took is how many bytes of memory reading it has
// allocated.
func Receive(stream []byte, self wire.Side) (m wire.Message, err error, took uint64) {
	c := wire.NewConn(ReadOnly{bytes.NewReader(stream)}, self)
	defer c.Abandon()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err = c.Recv()
	runtime.ReadMemStats(&after)
	return m, err, after.TotalAlloc - before.TotalAlloc
}

// IsInvalidValue reports whether err is a Violation about an invalid value and contains words.
func IsInvalidValue(err error, words string) bool {
	v, ok := err.(wire.Violation)
	return ok && strings.Contains(string(v), " with an impossible value: ") && strings.Contains(string(v), words)
}

// RowOf returns the row of a message in the table of kinds.
func RowOf(m wire.Message) wire.Kind {
	all := wire.Kinds()
	return all[slices.IndexFunc(all, func(k wire.Kind) bool { return k.Name == wire.NameOf(m) })]
}
