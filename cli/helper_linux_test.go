package cli

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// A message of mpiexec that arrives after the end of the step is still received.
func TestMessagesAfterTheStep(t *testing.T) {
	helperEnd, mpiexecEnd := net.Pipe()
	step, cancel := context.WithCancel(t.Context())
	closeAfter(step, helperEnd, time.Hour)
	cancel()
	go mpiexecEnd.Write([]byte("bye"))
	got := make([]byte, 3)
	if n, err := helperEnd.Read(got); err != nil || string(got[:n]) != "bye" {
		t.Errorf("%q, %v", got[:n], err)
	}
}

// The connection is closed some time after the step has ended, so that mpiexec does not wait for ranks that end
// slowly.
func TestTheConnectionEndsAfterTheStep(t *testing.T) {
	helperEnd, mpiexecEnd := net.Pipe()
	step, cancel := context.WithCancel(t.Context())
	closeAfter(step, helperEnd, time.Millisecond)
	cancel()
	mpiexecEnd.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := mpiexecEnd.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("mpiexec reads %v", err)
	}
	if _, err := helperEnd.Read(make([]byte, 1)); err == nil {
		t.Error("the helper can still read")
	}
}
