package bfrops

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// samples has an element of each type, as in the table of pmix-wire.md 5.
var samples = map[Type]string{
	Bool: "\x01", Byte: "\xff", Int8: "\x80", Uint8: "\xff", Int16: "\x80\x00", Uint16: "\xff\xff",
	Int32: "\x80\x00\x00\x00", Uint32: "\xff\xff\xff\xff", Int64: "\x80\x00\x00\x00\x00\x00\x00\x00", Uint64: "\x7f\xff\xff\xff\xff\xff\xff\xff",
	Time: "\x00\x00\x00\x00\x00\x00\x00\x09", TimeVal: strings.Repeat("\x00", 16),
	Size: "\x00\x0f\x00\x00\x00\x00\x00\x00\x00\x02", Int: "\x00\x09\xff\xff\xff\xff", Uint: "\x00\x09\x00\x00\x00\x07", PID: "\x00\x0e\x00\x00\x00\x07",
	String: text("ab"), Float: text("1.500000"), Double: text("-2.000000"),
	Status: "\xff\xff\xff\xd2", ProcRank: "\xff\xff\xff\xfe", InfoDirectives: "\x00\x00\x00\x01",
	Persistence: "\x01", Scope: "\x02", DataRange: "\x04", Command: "\x03", ProcState: "\x01", AllocDirective: "\x01", Pointer: "\x01",
	DataType: "\x00\x03", IOFChannel: "\x00\x01",
	ProcType:  text("rs-1") + "\x00\x00\x00\x03",
	ValueType: "\x00\x03" + text("v"),
	KVal:      text("k") + "\x00\x00", InfoType: text("k") + "\x00\x00\x00\x00\x00\x01\x01",
	PData:      text("rs-1") + "\x00\x00\x00\x03" + text("k") + "\x00\x01\x00",
	ByteObject: size(3) + "abc", CompressedString: size(1) + "z", Buffer: "\x01" + size(2) + "xy",
	DataArray: "\x00\x03" + size(2) + text("a") + text(""),
	Query:     "\x00\x00\x00\x01" + text("q") + size(0),
	Envar:     text("PATH") + text("/bin") + ":",
	ProcInfo:  text("rs-1") + "\x00\x00\x00\x03" + text("host") + text("/bin/a") + "\x00\x0e\x00\x00\x00\x07" + "\x03",
	App:       text("a") + "\x00\x09\x00\x00\x00\x01" + text("a") + "\x00\x00\x00\x01" + text("A=1") + text("/") + "\x00\x09\x00\x00\x00\x02" + size(0),
}

func text(s string) string { return string(appendText(nil, s)) }
func size(n int) string    { return string(appendSize(nil, n)) }

// An element of each type ends where pmix-wire.md says: following bytes are not read, and missing bytes
// are an error.
func TestEveryTypeHasItsEnd(t *testing.T) {
	for code := range 300 {
		sample, known := samples[Type(code)]
		if _, row := elementSizeOf(Type(code)); row != known {
			t.Errorf("type %d: row %v, sample %v", code, row, known)
		}
		if !known {
			continue
		}
		e := elementReader{rest: []byte(sample + "rest")}
		if e.skip(Type(code)); e.err != nil || string(e.rest) != "rest" {
			t.Errorf("type %d: %q is left, %v", code, e.rest, e.err)
		}
		for n := range len(sample) {
			e := elementReader{rest: []byte(sample[:n])}
			if e.skip(Type(code)); !errors.Is(e.err, ErrMalformed) {
				t.Errorf("type %d, cut off at %d: %v", code, n, e.err)
			}
		}
		if s, _ := elementSizeOf(Type(code)); s.bytes > len(sample) || s.fixed && s.bytes != len(sample) {
			t.Errorf("type %d: %+v, a sample of %d bytes", code, s, len(sample))
		}
	}
}

// The minimum size of each type in elementSizes is exact: one byte less would let checkCount accept too
// many elements, one more would make it refuse valid ones.
func TestShortestElements(t *testing.T) {
	for code := range elementSizes {
		s, known := elementSizeOf(Type(code))
		if !known {
			continue
		}
		e := elementReader{rest: make([]byte, 64)}
		switch Type(code) {
		case Size, PID, Int, Uint, ByteObject, CompressedString:
			e.rest[1] = byte(Uint8)
		case Buffer:
			e.rest[2] = byte(Uint8)
		case DataArray:
			e.rest[3] = byte(Uint8)
		case Query:
			e.rest[5] = byte(Uint8)
		case ProcInfo:
			e.rest[17] = byte(Uint8)
		case App:
			e.rest[5], e.rest[16], e.rest[19] = byte(Uint8), byte(Uint8), byte(Uint8)
		}
		if e.skip(Type(code)); e.err != nil || 64-len(e.rest) != s.bytes {
			t.Errorf("type %d: the shortest has %d bytes, not %d; %v", code, 64-len(e.rest), s.bytes, e.err)
		}
	}
}

// Number decodes every integer type (PMIX-27).
func TestNumbers(t *testing.T) {
	for code, want := range map[Type]int64{
		Bool: 1, Byte: 255, Int8: -128, Uint8: 255, Int16: -32768, Uint16: 65535, Int32: -1 << 31, Uint32: 1<<32 - 1,
		Int64: math.MinInt64, Uint64: math.MaxInt64, Time: 9, Size: 2, Int: -1, Uint: 7, PID: 7,
		Status: -46, ProcRank: 1<<32 - 2, Persistence: 1, Scope: 2, DataRange: 4,
	} {
		v := Value{code, []byte(samples[code])}
		if got, ok := v.Number(); got != want || !ok {
			t.Errorf("type %d: %d, %v; want %d", code, got, ok, want)
		}
	}
	for _, v := range []Value{TextOf("7"), {}, {Uint64, []byte("\xff\xff\xff\xff\xff\xff\xff\xff")}, {DataArray, []byte(samples[DataArray])}} {
		if n, ok := v.Number(); ok {
			t.Errorf("%+v is the number %d", v, n)
		}
	}
}

// Values decode to the content that they were made of. Methods for other types return false.
func TestValues(t *testing.T) {
	proc := Proc{"rs-1", 3}
	info := Info{Key: "k", Value: FlagOf(true)}
	last := info
	last.Flags = 2
	for _, test := range []struct {
		v    Value
		want any
	}{
		{TextOf("text"), "text"}, {TextOf(""), ""}, {BlobOf([]byte("a"), []byte("bc")), []byte("abc")}, {ProcOf(proc), proc},
		{InfosOf(info, info), []Info{info, last}}, {Uint16Of(65535), int64(65535)}, {Uint32Of(1 << 31), int64(1 << 31)}, {SizeOf(5), int64(5)},
		{RankOf(Wildcard), int64(Wildcard)}, {FlagOf(false), int64(0)}, {Value{Envar, []byte(samples[Envar])}, Variable{"PATH", "/bin", ':'}},
	} {
		e := elementReader{rest: appendValue(nil, test.v)}
		v := e.value()
		if e.err != nil || len(e.rest) > 0 {
			t.Errorf("%+v: %v, %d bytes left", test.v, e.err, len(e.rest))
		}
		if got := allInterpretations(v); len(got) != 1 || !reflect.DeepEqual(got[0], test.want) {
			t.Errorf("%+v is %+v, want %+v", v, got, test.want)
		}
	}
}

// allInterpretations returns the results of all decoding methods of a value.
func allInterpretations(v Value) (all []any) {
	if x, ok := v.Text(); ok {
		all = append(all, x)
	}
	if x, ok := v.Blob(); ok {
		all = append(all, x)
	}
	if x, ok := v.Proc(); ok {
		all = append(all, x)
	}
	if x, ok := v.Infos(); ok {
		all = append(all, x)
	}
	if x, ok := v.Variable(); ok {
		all = append(all, x)
	}
	if x, ok := v.Number(); ok {
		all = append(all, x)
	}
	return all
}

// Malformed packs are refused (PMIX-26).
func TestMalformed(t *testing.T) {
	for _, test := range []struct {
		name string
		body string
		read func(*Reader)
	}{
		{"two where one should be", "\x00\x00\x00\x02\x01\x01", func(r *Reader) { r.Byte() }},
		{"none where one should be", "\x00\x00\x00\x00", func(r *Reader) { r.Byte() }},
		{"a text of -5 bytes", "\x00\x00\x00\x01\xff\xff\xff\xfbx", func(r *Reader) { r.Text() }},
		{"a text longer than the message", "\x00\x00\x00\x01\x00\x00\x00\x05abc\x00", func(r *Reader) { r.Text() }},
		{"a text without an end", "\x00\x00\x00\x01\x00\x00\x00\x02ab", func(r *Reader) { r.Text() }},
		{"a text with an end inside", "\x00\x00\x00\x01\x00\x00\x00\x03a\x00\x00", func(r *Reader) { r.Text() }},
		{"a size that is a text", "\x00\x00\x00\x01\x00\x03" + text("7"), func(r *Reader) { r.Size() }},
		{"a size that is a size", "\x00\x00\x00\x01\x00\x04" + size(7), func(r *Reader) { r.Size() }},
		{"a size below zero", "\x00\x00\x00\x01\x00\x07\xff", func(r *Reader) { r.Size() }},
		{"a size of 2^63", "\x00\x00\x00\x01\x00\x0f\x80\x00\x00\x00\x00\x00\x00\x00", func(r *Reader) { r.Size() }},
		{"a list whose pack has another length", string(AppendSize(nil, 2)) + "\x00\x00\x00\x01" + samples[ProcType], func(r *Reader) { r.Procs() }},
		{"more elements than bytes", string(AppendSize(nil, 1000)) + "\x00\x00\x03\xe8" + samples[ProcType], func(r *Reader) { r.Procs() }},
		{"more keys than bytes", string(AppendSize(nil, 2)) + string(AppendText(nil, "k")), func(r *Reader) { r.Keys() }},
		{"a described buffer", "\x00\x00\x00\x01\x02" + size(0), func(r *Reader) { r.Buffer() }},
		{"a value of no known type", "\x00\x00\x00\x01" + text("k") + "\x00\x2f\x00", func(r *Reader) { r.Pair() }},
		{"an array of no known type", "\x00\x00\x00\x01" + text("k") + "\x00\x27\x00\x2f" + size(1) + "\x00", func(r *Reader) { r.Pair() }},
		{"an array of nothings", "\x00\x00\x00\x01" + text("k") + "\x00\x27\x00\x00" + size(1), func(r *Reader) { r.Pair() }},
		{"a program with -1 arguments", string(AppendSize(nil, 1)) + "\x00\x00\x00\x01" + text("a") + "\x00\x09\xff\xff\xff\xff" + samples[App], func(r *Reader) { r.Programs() }},
	} {
		r := NewReader([]byte(test.body))
		if test.read(r); !errors.Is(r.Err(), ErrMalformed) || r.More() {
			t.Errorf("%s: %v", test.name, r.Err())
		}
	}
}

// Each limit of pmix-wire.md 11 is tested at the limit and one above.
func TestBounds(t *testing.T) {
	name := func(n int) string { return strings.Repeat("n", n) }
	for _, test := range []struct {
		name  string
		bound int
		body  func(n int) []byte
		read  func(*Reader)
		want  error
	}{
		{"namespace", 255, func(n int) []byte { return AppendText(nil, name(n)) }, func(r *Reader) { r.Namespace() }, ErrBound},
		{"namespace of a process", 255, func(n int) []byte { return AppendProc(nil, Proc{Namespace: name(n)}) }, func(r *Reader) { r.Proc() }, ErrBound},
		{"key", 511, func(n int) []byte { return AppendText(nil, name(n)) }, func(r *Reader) { r.Key() }, ErrBound},
		{"key of a pair", 511, func(n int) []byte { return AppendPair(nil, name(n), Value{}) }, func(r *Reader) { r.Pair() }, ErrBound},
		{"processes", 65536, func(n int) []byte { return AppendProcs(nil, make([]Proc, n)) }, func(r *Reader) { r.Procs() }, ErrBound},
		{"infos", 1024, func(n int) []byte { return AppendInfos(nil, make([]Info, n)) }, func(r *Reader) { r.Infos() }, ErrBound},
		{"keys", 1024, func(n int) []byte { return AppendKeys(nil, make([]string, n)) }, func(r *Reader) { r.Keys() }, ErrBound},
		{"statuses", 1024, func(n int) []byte { return AppendStatuses(nil, make([]int32, n)) }, func(r *Reader) { r.Statuses() }, ErrBound},
		{"queries", 1024, func(n int) []byte { return AppendQueries(nil, make([]Question, n)) }, func(r *Reader) { r.Queries() }, ErrBound},
		{"qualifiers", 1024, func(n int) []byte { return AppendQueries(nil, []Question{{Qualifiers: make([]Info, n)}}) }, func(r *Reader) { r.Queries() }, ErrBound},
		{"programs", 1024, func(n int) []byte { return AppendPrograms(nil, make([]Program, n)) }, func(r *Reader) { r.Programs() }, ErrBound},
		{"values inside of each other", 8, nested, func(r *Reader) { r.Pair() }, ErrMalformed},
		{"arrays inside of each other", 7, nestedArrays, func(r *Reader) { r.Pair() }, ErrMalformed},
	} {
		r := NewReader(test.body(test.bound))
		if test.read(r); r.Err() != nil || r.More() {
			t.Errorf("%s: %d are refused: %v", test.name, test.bound, r.Err())
		}
		r = NewReader(test.body(test.bound + 1))
		if test.read(r); !errors.Is(r.Err(), test.want) {
			t.Errorf("%s: %d: %v", test.name, test.bound+1, r.Err())
		}
	}
}

// nested is a pair with n nested values, the innermost a byte.
func nested(n int) []byte {
	v := Value{Byte, []byte{1}}
	for range n - 1 {
		v = Value{ValueType, appendValue(nil, v)}
	}
	return AppendPair(nil, "k", v)
}

// nestedArrays is a pair whose value is n nested arrays, the innermost of a byte.
func nestedArrays(n int) []byte {
	element, of := []byte{1}, Byte
	for range n {
		element, of = append([]byte{0, byte(of)}, append([]byte(size(1)), element...)...), DataArray
	}
	return AppendPair(nil, "k", Value{DataArray, element})
}

// The Reader reads back everything that the Append functions write.
func TestReadsBack(t *testing.T) {
	info := Info{"k", 7, BlobOf([]byte("x"))}
	program := Program{"a", []string{"a", "-x"}, []string{"A=1"}, "/", 3, []Info{info}}
	body := AppendByte(nil, 3)
	body = AppendUint32(body, 1<<31)
	body = AppendTime(body, -1)
	body = AppendSize(body, 9)
	body = AppendBlob(body, []byte("ab"), []byte("c"))
	body = AppendBuffer(body, []byte("de"))
	body = AppendProc(body, Proc{"rs-1", 2})
	body = AppendPair(body, "k", TextOf("v"))
	body = AppendProcs(body, nil)
	body = AppendInfos(body, []Info{info, info})
	body = AppendData(body, []Datum{{Proc{"rs-1", 2}, Pair{"k", TextOf("v")}}})
	body = AppendStatuses(body, []int32{-1, 0})
	body = AppendQueries(body, []Question{{[]string{"q"}, []Info{info}}})
	body = AppendPrograms(body, []Program{program})
	body = AppendKeys(body, []string{"a", "b"})
	r := NewReader(body)
	got := []any{r.Byte(), r.Rank(), r.Time(), r.Size(), r.Blob(), r.Buffer(), r.Proc(), r.Pair(), r.Procs(), r.Infos(), r.Data(), r.Statuses(), r.Queries(), r.Programs(), r.Keys()}
	want := []any{uint8(3), Rank(1 << 31), int64(-1), uint64(9), []byte("abc"), []byte("de"), Proc{"rs-1", 2}, Pair{"k", TextOf("v")}, []Proc(nil), []Info{info, info},
		[]Datum{{Proc{"rs-1", 2}, Pair{"k", TextOf("v")}}}, []int32{-1, 0}, []Question{{[]string{"q"}, []Info{info}}}, []Program{program}, []string{"a", "b"}}
	if !reflect.DeepEqual(got, want) || r.Err() != nil || r.More() {
		t.Errorf("%+v\ngot: %+v, %v", want, got, r.Err())
	}
}

// Processes of one namespace in a list share one string.
func TestNamespacesAreKeptOnce(t *testing.T) {
	body := AppendProcs(nil, make([]Proc, 1000))
	body = append(body, AppendProcs(nil, bytesOf(1000))...)
	allocations := testing.AllocsPerRun(10, func() {
		r := NewReader(body)
		if len(r.Procs())+len(r.Procs()) != 2000 {
			t.Fatal(r.Err())
		}
	})
	if allocations > 10 {
		t.Errorf("%v allocations for 2,000 processes", allocations)
	}
}

func bytesOf(n int) []Proc {
	procs := make([]Proc, n)
	for i := range procs {
		procs[i] = Proc{"rs-0123456789abcdef-1", Rank(i)}
	}
	return procs
}

// Err returns the first error, with its details.
func TestFirstErrorStays(t *testing.T) {
	r := NewReader([]byte("\x00\x00\x00\x01\xff\xff\xff\xfbx"))
	r.Text()
	first := r.Err()
	r.Fail(fmt.Errorf("%w: later", ErrBound))
	r.Byte()
	if r.Err() != first || !strings.Contains(first.Error(), "the length of a string is negative (-5)") {
		t.Errorf("%v, at first %v", r.Err(), first)
	}
	if got := bytes.TrimSpace(r.Blob()); len(got) > 0 {
		t.Errorf("after an error: %q", got)
	}
}
