package pmix

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Messages arrive whole and in the order in which they were put, whoever puts them.
func TestOutboxKeepsTheOrder(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	o, want := &outbox{conn: ours, rank: new(atomic.Int64)}, []byte(nil)
	for i := range 100 {
		message := bytes.Repeat([]byte{byte(i)}, i+1)
		want = append(want, message...)
		if err := o.enqueue(message); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, as they were put: %v; %v", len(got), bytes.Equal(got, want), err)
	}
}

// What a socket takes is written at once, by who puts it; what it has no room for waits, and comes
// behind that, also when a message was cut in two.
func TestOutboxOfASocket(t *testing.T) {
	ours, theirs := sockets(t)
	o := &outbox{conn: ours, raw: rawOf(ours), rank: new(atomic.Int64)}
	var want []byte
	put := func(size int) {
		message := bytes.Repeat([]byte{byte(len(want)>>16) + 1}, size)
		want = append(want, message...)
		if err := o.enqueue(message); err != nil {
			t.Fatal(err)
		}
	}
	read := func() {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, as they were put: %v; %v", len(got), bytes.Equal(got, want), err)
		}
		want = nil
	}
	for range 3 {
		if put(100); o.writing || o.bytes > 0 {
			t.Fatal("a goroutine was to write what the socket has room for")
		}
	}
	read()
	for range 60 {
		put(1 << 20)
	}
	put(1)
	if o.mu.Lock(); !o.writing {
		t.Error("61 MiB were written at once")
	}
	o.mu.Unlock()
	read()
	theirs.Close()
	for o.enqueue(make([]byte, 100)) == nil { // the kernel has to hear of it
	}
}

// sockets are the ends of a connection over the loopback.
func sockets(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if theirs, err = net.Dial("tcp4", l.Addr().String()); err == nil {
		ours, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// Who puts never waits for a client that does not read; one that never does is cut off.
func TestOutboxOfAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o, message, put := &outbox{conn: ours, rank: new(atomic.Int64)}, make([]byte, 1<<20), 0
		for ; o.enqueue(message) == nil; put++ {
		}
		if put != maxQueued/len(message) {
			t.Errorf("%d MiB wait, want %d", put, maxQueued>>20)
		}
		if err := o.enqueue(nil); err != errOverrun {
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
		o := &outbox{conn: ours, rank: new(atomic.Int64)}
		o.enqueue([]byte("a"))
		theirs.Close()
		synctest.Wait()
		if err := o.enqueue([]byte("b")); err != errGone {
			t.Errorf("got %v", err)
		}
	})
}

// What waits for a client counts for its rank, so that more connections are not more room; and nothing counts any more
// when it is read, or its connection is over.
func TestOutboxesOfARank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rank atomic.Int64
		message, put := make([]byte, 1<<20), 0
		var all []*outbox
		for over := false; !over; put++ {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			o := &outbox{conn: ours, rank: &rank}
			all = append(all, o)
			over = o.enqueue(message) != nil
		}
		if put-1 != maxQueued/len(message) {
			t.Errorf("%d MiB wait, want %d", put-1, maxQueued>>20)
		}
		for _, o := range all {
			o.close()
			o.conn.Close()
		}
		synctest.Wait()
		if n := rank.Load(); n != 0 {
			t.Errorf("%d bytes of clients that are gone", n)
		}
		ours, theirs := net.Pipe()
		o := &outbox{conn: ours, rank: &rank}
		o.enqueue(message)
		if _, err := io.ReadFull(theirs, make([]byte, len(message))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := rank.Load(); n != 0 {
			t.Errorf("%d bytes that were read", n)
		}
		o.close()
	})
}
