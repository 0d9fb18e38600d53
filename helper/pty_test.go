//go:build linux

package helper

import (
	"testing"

	"remshell/wire"
)

// A rank with a terminal knows its size, also after a change.
func TestATerminalHasASize(t *testing.T) {
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) { m.Streams.PTY, m.Streams.Rows, m.Streams.Cols = []int{0}, 33, 77 },
		`trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.01; done`)
	k.conn.Send(&wire.Start{})
	k.awaitOutput(0, "33 77\r\n")
	k.conn.Send(&wire.ResizeTerminal{Rows: 44, Cols: 88})
	k.awaitOutput(0, "44 88\r\n")
	k.bye()
}
