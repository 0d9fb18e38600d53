package pmix

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Messages of several goroutines arrive whole, and in the order in which they were enqueued.
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

// The bytes that the socket takes are written at once by the caller. The rest is queued and follows in
// order, even if a message was split.
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
	for o.enqueue(make([]byte, 100)) == nil { // until the kernel notices the close
	}
}

// sockets returns the two ends of a connection over the loopback.
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

// enqueue never blocks on a client that does not read. Such a client is disconnected in the end.
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
		synctest.Wait() // the test ends only when no goroutine writes
	})
}

// enqueue for a client that has gone returns an error, and leaves no goroutine.
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

// The limit of queued bytes is shared by all connections of a rank. Bytes no longer count when they are
// written or the connection has ended.
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
