package cli

import (
	"context"
	"io"
	"net"
	"os"

	"remshell/helper"
)

// An inside is the helper of a job on this machine alone, in this process: the start of
// another Go program would take longer than all the rest (doc/adr/0007).
type inside struct {
	net.Conn
	done chan struct{} // closed when the helper has left
}

func newInside(environ, guard []string) io.ReadWriteCloser {
	near, far := net.Pipe()
	i := inside{near, make(chan struct{})}
	go func() {
		defer close(i.done)
		helper.Serve(context.Background(), far, helper.System{
			Root: helper.Disk(""), Environ: environ,
			Guard: guard, Terminal: hasTerminal(),
		})
	}()
	return i
}

// Close waits until the helper has ended what is left.
func (i inside) Close() error {
	err := i.Conn.Close()
	<-i.done
	return err
}

// Way is that of package reach.
func (i inside) Way() string { return "inside" }

func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}
