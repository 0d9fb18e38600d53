//go:build linux

package helper

import (
	"context"

	"remshell/wire"
)

// Inside is the helper of a job on this machine alone, in the process of its mpiexec:
// the start of another Go program would take longer than all the rest (doc/adr/0007).
// Close waits until it has ended what is left.
type Inside struct {
	*wire.InProcess
	done chan struct{} // closed when the helper has left
}

// NewInside starts one.
func NewInside(sys System) Inside {
	near, far := wire.NewInProcess()
	i := Inside{near, make(chan struct{})}
	go func() {
		defer close(i.done)
		if err := Serve(context.Background(), far, sys); err != nil {
			far.Fail(err) // of what kept it from saying anything: else it is closed by now
		}
	}()
	return i
}

// Close ends the conversation.
func (i Inside) Close() error {
	err := i.InProcess.Close()
	<-i.done
	return err
}

// Way is that of package reach.
func (i Inside) Way() string { return "inside" }
