/*
Package wiretest checks that a kind of message follows the rules of package wire. Package feature calls
Check with the example of each kind that a feature registers.

	Check        a message arrives as it was sent; no frame is read that is too short or too long;
	             each number, text and list has a limit; no frame of a helper takes too much memory
	CheckBytes   the frame does not change, since mpiexec and its helpers have to agree on it
*/
package wiretest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remshell/wire"
)

// Check checks all rules with the message m. No list in m may be empty, so that elements are checked,
// too.
func Check(t *testing.T, m wire.Message) {
	t.Helper()
	leaves(reflect.ValueOf(m).Elem(), func(name string, v reflect.Value) {
		if v.Kind() == reflect.Slice && v.Len() == 0 {
			t.Errorf("%s has no %s: one is needed to check its elements", wire.NameOf(m), name)
		}
	})
	checkFrame(t, m)
	CheckLimits(t, m)
	CheckMemory(t, m)
}

// CheckBytes checks that the frame of a message has not changed. want is its bytes in hex.
func CheckBytes(t *testing.T, m wire.Message, want string) {
	t.Helper()
	if got := hex.EncodeToString(wire.Encode(m)); got != want {
		t.Errorf("%s is %s, not %s", wire.NameOf(m), got, want)
	}
}

// CheckLimits checks that each field of a message has a limit: numbers, texts, and lists that a helper
// sends. unbounded names exceptions: a number that only must not be negative, or a text that may be as
// long as the frame.
func CheckLimits(t *testing.T, m wire.Message, unbounded ...string) {
	t.Helper()
	kind := RowOf(m)
	leaves(reflect.ValueOf(m).Elem(), func(name string, v reflect.Value) {
		where := kind.Name + "." + name
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		defer v.Set(old)
		switch v.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int64:
			if isSent(m, v) {
				refusesNumbers(t, m, where, v, !slices.Contains(unbounded, name))
			}
		case reflect.Float64:
			if isSent(m, v) {
				v.SetFloat(math.Inf(1))
				refuses(t, m, where)
			}
		case reflect.String:
			if isSent(m, v) && (kind.Sender == wire.Helper && !slices.Contains(unbounded, name) || old.Len() > 0 && isTruncated(m, v)) {
				refusesTexts(t, m, where, v)
			}
		case reflect.Slice:
			if kind.Sender == wire.Helper && v.Type().Elem().Kind() != reflect.Uint8 && isSent(m, v) {
				v.Set(reflect.MakeSlice(v.Type(), beyondLists, beyondLists))
				refuses(t, m, where)
			}
		}
	})
}

// checkFrame checks that a message arrives as it was sent. It also checks that three kinds of frames are
// refused: a frame that ends early, a frame whose body is shorter or longer than the message, and a frame
// whose body is larger than the kind allows.
func checkFrame(t *testing.T, m wire.Message) {
	t.Helper()
	frame := wire.Encode(m)
	if got, err, _ := Receive(frame, AnySide); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("sent %+v\n got %+v, %v", m, got, err)
	}
	_, size := binary.Uvarint(frame[1:])
	body := frame[1+size:]
	for n := 1; n < len(frame); n++ {
		if got, err, _ := Receive(frame[:n], AnySide); err != io.ErrUnexpectedEOF {
			t.Errorf("after %d of %d bytes: %+v, %v", n, len(frame), got, err)
		}
	}
	violates := func(body []byte) {
		t.Helper()
		got, err, _ := Receive(append(binary.AppendUvarint([]byte{frame[0]}, uint64(len(body))), body...), AnySide)
		if _, is := err.(wire.Violation); !is {
			t.Errorf("a body of %d bytes, instead of %d: %+v, %v", len(body), len(frame)-1-size, got, err)
		}
	}
	for n := range body {
		violates(body[:n])
	}
	violates(append(slices.Clone(body), 0))
	tooLarge := binary.AppendUvarint(slices.Clone(frame[:1]), uint64(RowOf(m).MaxBody)+1)
	if got, err, _ := Receive(tooLarge, AnySide); !strings.HasSuffix(fmt.Sprint(err), fmt.Sprintf(" of %d bytes, which is too large", RowOf(m).MaxBody+1)) {
		t.Errorf("a larger body than the kind allows: %+v, %v", got, err)
	}
}

// CheckMemory checks that no frame of a helper's message costs mpiexec more than 4 MiB in addition to the
// frame's size (rule TRUST-29 to 31).
func CheckMemory(t *testing.T, m wire.Message) {
	t.Helper()
	for _, frame := range HostileFrames(m, 1<<30) {
		most := uint64(4<<20 + 8*len(frame))
		if m, err, took := Receive(frame, wire.Launcher); took > most {
			t.Errorf("%T of %d bytes took %d, more than %d (%v)", m, len(frame), took, most, err)
		}
	}
}
