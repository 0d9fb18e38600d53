package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"remshell/pipe"
)

// A sender may reuse its own bytes at once. Bytes from the pool are handed over.
func TestInProcessCopiesUnpooledData(t *testing.T) {
	near, far := NewInProcess()
	left, right := NewConn(near, Launcher), NewConn(far, Helper)
	own := bytes.Repeat([]byte("a"), Window)
	left.Send(&Data{Rank: 1, Stream: Stdin, Bytes: own})
	copy(own, "changed")
	pooled := NewData(Window)
	copy(pooled.Bytes, "b")
	pooled.Rank = 2
	left.Send(pooled)
	for _, want := range []string{"a", "b"} {
		m, err := right.Recv()
		if err != nil {
			t.Fatal(err)
		}
		data := m.(*Data)
		if got := string(data.Bytes[:1]); got != want || len(data.Bytes) != Window {
			t.Errorf("%d bytes that begin with %q, want %q", len(data.Bytes), got, want)
		}
		data.Release()
		data.Release() // a second Release has no effect
	}
}

// Messages sent before the end arrive, and then the end.
func TestInProcessClose(t *testing.T) {
	near, far := NewInProcess()
	left, right := NewConn(near, Launcher), NewConn(far, Helper)
	left.Send(&Bye{})
	left.Close()
	if m, err := right.Recv(); err != nil {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := right.Recv(); err != io.EOF {
		t.Errorf("behind the last message: %v", err)
	}
	if err := right.Send(&Ping{}); err != ErrClosed {
		t.Errorf("sent to nobody: %v", err)
	}
	if _, err := near.Read(nil); err == nil {
		t.Error("an InProcess has no bytes to read")
	}
}

// If a helper inside mpiexec cannot begin, the error of Fail is the only report of the reason.
func TestInProcessFail(t *testing.T) {
	why := errors.New("become a subreaper: invalid argument")
	near, far := NewInProcess()
	far.Fail(why)
	far.Close()
	if _, _, err := NewConn(near, Launcher).ReceiveHello(); !errors.Is(err, why) {
		t.Errorf("greeted with %v", err)
	}
}

// A splice buffer is handed over within a process. To another process it is refused, rather than sent as end of the stream.
func TestSplicedDataOnlyInProcess(t *testing.T) {
	near, far := NewInProcess()
	left, right := NewConn(near, Launcher), NewConn(far, Helper)
	if err := left.Send(SplicedData(1, new(pipe.SpliceBuffer), 5)); err != nil {
		t.Fatal(err)
	}
	if m, err := right.Recv(); err != nil || m.(*Data).Len() != 5 || m.(*Data).Rank != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	var out bytes.Buffer
	other := NewConn(struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, &out, io.NopCloser(nil)}, Launcher)
	err := other.Send(SplicedData(1, new(pipe.SpliceBuffer), 5))
	other.Flush()
	if err == nil || out.Len() > 0 {
		t.Errorf("%v, and %d bytes were sent", err, out.Len())
	}
}
