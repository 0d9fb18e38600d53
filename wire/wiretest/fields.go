package wiretest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/wire"
)

// isSent reports whether a field of a message is part of its frame. It changes the field to find out.
func isSent(m wire.Message, v reflect.Value) bool {
	v.SetZero()
	empty := wire.Encode(m)
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
	return !bytes.Equal(wire.Encode(m), empty)
}

// beyondLists is a number of elements larger than any list in a helper's message may have.
const beyondLists = 1<<16 + 1

// leaves calls f for each field that can be set in v, at any depth.
func leaves(v reflect.Value, f func(name string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).CanSet() {
				continue
			}
			leaves(v.Field(i), func(name string, leaf reflect.Value) {
				if name == "" {
					name = v.Type().Field(i).Name
				}
				f(name, leaf)
			})
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		f("", v)
		leaves(v.Index(0), f)
	case v.Kind() == reflect.Array:
		leaves(v.Index(0), f)
	default:
		f("", v)
	}
}

// refuses checks that receiving m is a violation. where is printed if it is not.
func refuses(t *testing.T, m wire.Message, where string) {
	t.Helper()
	frame := wire.Encode(m)
	_, n := binary.Uvarint(frame[1:])
	if err := wire.Decode(RowOf(m).New(), frame[1+n:]); !IsInvalidValue(err, "") {
		t.Errorf("%s can be anything: %v", where, err)
	}
}

func refusesNumbers(t *testing.T, m wire.Message, where string, v reflect.Value, both bool) {
	beyond := 64 - v.Type().Bits()
	v.SetInt(math.MinInt64 >> beyond)
	refuses(t, m, where)
	if both {
		v.SetInt(math.MaxInt64 >> beyond)
		refuses(t, m, where)
	}
}

// isTruncated reports whether a text is truncated when it is written. It changes the field to find out.
func isTruncated(m wire.Message, v reflect.Value) bool {
	v.SetString(strings.Repeat("x", 1<<20))
	return len(wire.Encode(m)) < 1<<20
}

// refusesTexts checks that a receiver refuses a text that is one byte too long. A writer may truncate the
// text. Then it changes the frame.
func refusesTexts(t *testing.T, m wire.Message, where string, v reflect.Value) {
	t.Helper()
	if !isTruncated(m, v) {
		refuses(t, m, where)
		return
	}
	frame := wire.Encode(m)
	_, n := binary.Uvarint(frame[1:])
	body := frame[1+n:]
	start := bytes.Index(body, []byte("xxxxxxxxxx"))
	end := start + bytes.Index(body[start:], []byte("...")) + len("...")
	prefix := len(binary.AppendVarint(nil, int64(end-start)))
	receives := func(size int) error {
		forged := binary.AppendVarint(slices.Clone(body[:start-prefix]), int64(size))
		forged = append(append(forged, strings.Repeat("x", size)...), body[end:]...)
		return wire.Decode(RowOf(m).New(), forged)
	}
	least, most := 0, 0 // with a limit in this range the text would be truncated as it was
	for limit := end - start; limit <= (end-start)*2; limit++ {
		if limit-limit/64 == end-start {
			least, most = cmp.Or(least, limit), limit
		}
	}
	if err := receives(least); err != nil {
		t.Errorf("%s of %d bytes: %v", where, least, err)
	}
	if err := receives(most + 1); !IsInvalidValue(err, fmt.Sprintf(" of %d bytes", most+1)) {
		t.Errorf("%s of %d bytes: %v", where, most+1, err)
	}
}
