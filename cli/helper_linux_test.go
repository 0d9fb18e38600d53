package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// The end of a step may be heard before the last words of mpiexec, which come by another way: these are heard all the same.
func TestLastWordsAfterTheStep(t *testing.T) {
	here, there := net.Pipe()
	step, over := context.WithCancel(t.Context())
	endWith(step, here, time.Hour)
	over()
	go there.Write([]byte("bye"))
	said := make([]byte, 3)
	if n, err := here.Read(said); err != nil || string(said[:n]) != "bye" {
		t.Errorf("%q, %v", said[:n], err)
	}
	here, _ = net.Pipe()
	endWith(step, here, time.Millisecond)
	if _, err := here.Read(said); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("mpiexec is heard for ever: %v", err)
	}
}
