package pmix

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// Messages arrive whole and in the order in which they were put, whoever puts them.
func TestOutboxKeepsTheOrder(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	o, want := &outbox{conn: ours}, []byte(nil)
	for i := range 100 {
		message := bytes.Repeat([]byte{byte(i)}, i+1)
		want = append(want, message...)
		if err := o.put(message); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, as they were put: %v; %v", len(got), bytes.Equal(got, want), err)
	}
}

// Who puts never waits for a client that does not read; one that never does is cut off.
func TestOutboxOfAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o, message, put := &outbox{conn: ours}, make([]byte, 1<<20), 0
		for ; o.put(message) == nil; put++ {
		}
		if put != maxQueued/len(message) {
			t.Errorf("%d MiB wait, want %d", put, maxQueued>>20)
		}
		if err := o.put(nil); err != errOverrun {
			t.Errorf("a message after that: %v", err)
		}
		if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client reads %v, want the end", err)
		}
		synctest.Wait() // the bubble ends only when nobody writes any more
	})
}

// A client that has gone is told to who writes to it, and leaves no goroutine behind.
func TestOutboxOfAClientThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o := &outbox{conn: ours}
		o.put([]byte("a"))
		theirs.Close()
		synctest.Wait()
		if err := o.put([]byte("b")); err != errGone {
			t.Errorf("got %v", err)
		}
	})
}
