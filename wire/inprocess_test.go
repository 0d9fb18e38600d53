package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"remshell/pipe"
)

// inside stands in for what a dialer makes of an InProcess.
type inside struct{ *InProcess }

func TestEveryMessageArrivesThroughAJoint(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	near, far := NewInProcess()
	left, right := NewConn(inside{near}, Helper), NewConn(far, anySide)
	left.SendHello(&Hello{Version: Version})
	if hello, noise, err := right.ReceiveHello(); err != nil || hello.Version != Version || len(noise) > 0 {
		t.Fatalf("greeted with %+v, %q, %v", hello, noise, err)
	}
	sent := messages(r)
	for _, m := range sent {
		if err := left.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	left.SendFrame(Encode(&Ping{}))
	left.Flush()
	for _, want := range append(sent, &Ping{}) {
		got, err := right.Recv()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("sent %+v\n got %+v, %v", want, got, err)
		}
	}
}

// Who sends bytes of his own may use them again at once; what came from the pool is gone.
func TestAJointCopiesWhatIsNotLent(t *testing.T) {
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
		data.Release() // once is enough, twice no harm
	}
}

// What was sent before the end arrives; then there is the end.
func TestAClosedJoint(t *testing.T) {
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

// A helper inside mpiexec that cannot begin has nothing but this to say why.
func TestAJointTellsWhyItEnded(t *testing.T) {
	why := errors.New("become a subreaper: invalid argument")
	near, far := NewInProcess()
	far.Fail(why)
	far.Close()
	if _, _, err := NewConn(near, Launcher).ReceiveHello(); !errors.Is(err, why) {
		t.Errorf("greeted with %v", err)
	}
}

// A tank goes from hand to hand; to another process it is refused, not sent as an end.
func TestATankStaysInItsProcess(t *testing.T) {
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
