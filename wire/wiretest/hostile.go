package wiretest

import (
	"reflect"

	"remshell/wire"
)

// HostileFrames returns the frames of m that cost a receiver the most memory. Each has as many tiny
// elements in one of its lists as fit into the largest size, up to limit bytes. There are none for
// messages of mpiexec and for messages without a tight limit.
func HostileFrames(m wire.Message, limit int) (frames [][]byte) {
	kind := RowOf(m)
	if kind.Sender != wire.Helper || kind.MaxBody >= 1<<30 {
		return nil
	}
	leaves(reflect.ValueOf(m).Elem(), func(_ string, v reflect.Value) {
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
			frames = append(frames, withLongList(m, v, min(limit, kind.MaxBody)))
		}
	})
	return frames
}

// withLongList returns a frame of m whose list v has as many elements as fit.
func withLongList(m wire.Message, v reflect.Value, limit int) []byte {
	old := reflect.ValueOf(v.Interface())
	defer func() { v.Set(old) }()
	size := func(all reflect.Value, n int) []byte {
		v.Set(all.Slice(0, n))
		return wire.Encode(m)
	}
	few := makeTiny(v.Type(), 2000)
	n := limit / (len(size(few, 2000)) - len(size(few, 1999)))
	for all := makeTiny(v.Type(), n); ; n -= n/8 + 1 {
		if frame := size(all, n); len(frame) <= limit {
			return frame
		}
	}
}

// makeTiny returns a list of n elements that take few bytes when encoded.
func makeTiny(typ reflect.Type, n int) reflect.Value {
	all := reflect.MakeSlice(typ, n, n)
	for i := range n {
		smallest(all.Index(i), i)
	}
	return all
}

// smallest sets v to a valid element that takes few bytes. i is its index in the list.
func smallest(v reflect.Value, i int) {
	switch {
	case v.Kind() == reflect.Int:
		v.SetInt(int64(i % (1 << 16)))
	case v.Kind() == reflect.Struct && v.FieldByName("Argv").IsValid():
		v.FieldByName("Argv").Set(reflect.MakeSlice(v.FieldByName("Argv").Type(), 1, 1))
		v.FieldByName("Count").SetInt(1)
	}
}
