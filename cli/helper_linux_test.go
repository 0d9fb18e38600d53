package cli

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// The end of a step may be heard before the last words of mpiexec, which come by another way: these are heard all the same.
func TestLastWordsAfterTheStep(t *testing.T) {
	here, there := net.Pipe()
	step, over := context.WithCancel(t.Context())
	closeAfter(step, here, time.Hour)
	over()
	go there.Write([]byte("bye"))
	said := make([]byte, 3)
	if n, err := here.Read(said); err != nil || string(said[:n]) != "bye" {
		t.Errorf("%q, %v", said[:n], err)
	}
}

// When they are due no more both sides hear that it is over: mpiexec shall not wait for ranks that take their time to end.
func TestTheConnectionEndsAfterTheStep(t *testing.T) {
	here, there := net.Pipe()
	step, over := context.WithCancel(t.Context())
	closeAfter(step, here, time.Millisecond)
	over()
	there.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("mpiexec hears %v", err)
	}
	if _, err := here.Read(make([]byte, 1)); err == nil {
		t.Error("mpiexec is heard for ever")
	}
}
