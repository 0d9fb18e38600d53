package python

import (
	"encoding/binary"
	"slices"
	"testing"

	"remshell/stack"
)

// The examples are those of Objects/lnotab_notes.txt and Objects/locations.md.
func TestLines(t *testing.T) {
	deltas := []byte{0, 1, 6, 1, 44, 5, 255, 0, 45, 127, 0, 73, 11, 1, 2, 0xfe}
	ranges := []byte{4, 0, 2, 0x80, 6, 2, 8, 0xff}
	locations := []byte{
		0x80 | 0<<3 | 1, 0x12, // 2 units, the same line
		0x80 | 11<<3 | 0, 1, 2, // 1 unit, the next line
		0x80 | 15<<3 | 0,                   // 1 unit, no line
		0x80 | 13<<3 | 0, 0x40 | 0x10, 0x6, // 1 unit, 200 lines further
		0x80 | 14<<3 | 7, 0x0b, 1, 1, 1, // 8 units, 5 lines back
	}
	for _, test := range []struct {
		kind         tableKind
		table        []byte
		offset, want int
	}{
		{lineDeltas, deltas, 0, 11}, {lineDeltas, deltas, 5, 11}, {lineDeltas, deltas, 6, 12}, {lineDeltas, deltas, 50, 17}, {lineDeltas, deltas, 349, 17},
		{lineDeltas, deltas, 350, 217}, {lineDeltas, deltas, 361, 218}, {lineDeltas, deltas, 363, 216}, {lineDeltas, deltas, -1, 10}, {lineDeltas, nil, 3, 10},
		{lineRanges, ranges, -1, 10}, {lineRanges, ranges, 0, 10}, {lineRanges, ranges, 1, 10}, {lineRanges, ranges, 2, 0}, {lineRanges, ranges, 3, 12},
		{lineRanges, ranges, 6, 11}, {lineRanges, ranges, 10, 0}, {lineRanges, ranges[:1], 0, 0},
		{lineLocations, locations, -2, 10}, {lineLocations, locations, 0, 10}, {lineLocations, locations, 3, 10}, {lineLocations, locations, 4, 11},
		{lineLocations, locations, 6, 0}, {lineLocations, locations, 8, 211}, {lineLocations, locations, 10, 206}, {lineLocations, locations, 25, 206},
		{lineLocations, locations, 26, 0}, {lineLocations, []byte{0x80 | 13<<3}, 0, 10},
	} {
		if got := lineAt(test.kind, test.table, 10, test.offset); got != test.want {
			t.Errorf("kind %d, offset %d: line %d, want %d", test.kind, test.offset, got, test.want)
		}
	}
	if got := lineAt(lineLocations, []byte{0x80 | 13<<3, 0x03}, 0, 0); got != 0 {
		t.Errorf("line %d", got)
	}
}

// words is a memory of words at addresses. Text and tables are words, too.
type words map[uint64]uint64

func (w words) read(address uint64, to []byte) bool {
	for i := range to {
		v, ok := w[(address+uint64(i))&^7]
		if !ok {
			return false
		}
		to[i] = byte(v >> (8 * ((address + uint64(i)) & 7)))
	}
	return true
}

// A thread that lists itself, frames that call each other in a circle, an object that is no code, and names and tables of any size
// end within the bounds.
func TestHostileMemory(t *testing.T) {
	for minor, l := range layouts {
		r := &Runtime{layout: l, runtime: 0x1000, codeType: 0xc0de}
		const interpreter, thread, cframe, frame, code = 0x10000, 0x20000, 0x30000, 0x40000, 0x50000
		w := words{
			0x1000 + l.interpreters: interpreter, interpreter + l.threads: thread, interpreter + l.nextInterpreter: interpreter,
			thread + l.threadID: 7, thread + l.interpreter: interpreter, thread + l.nextThread: thread, thread + l.frame: frame,
			frame + l.code: code, frame + l.previous: frame, code + l.objectType: 0xc0de,
		}
		if l.inCFrame != none {
			w[thread+l.frame], w[cframe+l.inCFrame] = cframe, frame
		}
		for a := uint64(frame); a < frame+256; a += 8 {
			if _, set := w[a]; !set {
				w[a] = 0
			}
		}
		if calls := r.Calls(w.read, 7, 0); len(calls) != stack.MaxFrames || !calls[len(calls)-1].Entry {
			t.Errorf("3.%d: %d calls in a circle, or the last one is no entry", minor, len(calls))
		}
		if calls := r.Calls(w.read, 8, 0); calls != nil {
			t.Errorf("3.%d: %d calls of a thread that is not there", minor, len(calls))
		}
		w[code+l.objectType] = 0xdead
		if calls := r.Calls(w.read, 7, 0); calls != nil {
			t.Errorf("3.%d: %d calls of an object that is no code", minor, len(calls))
		}
		w[code+l.objectType] = 0xc0de
		const text = 0x60000
		w[code+l.name], w[code+l.lines] = text, text
		w[text+l.state], w[text+l.length], w[text+l.byteCount] = 1<<2|1<<5|1<<6, 1<<63, 1<<63
		if at, ok := r.Locate(w.read, Call{code: code}); ok {
			t.Errorf("3.%d: %+v", minor, at)
		}
		for a := uint64(text) + l.ascii&^7; a < text+l.ascii+maxText+8; a += 8 {
			w[a] = 0x6161616161616161
		}
		if at, ok := r.Locate(w.read, Call{code: code}); !ok || len(at.Function) != maxText || at.Line != 0 {
			t.Errorf("3.%d: %d bytes, %v", minor, len(at.Function), ok)
		}
	}
}

// Whatever the memory has, calls are read within the bounds.
func FuzzMemory(f *testing.F) {
	f.Add(bytes(1, 2, 3), byte(11), uint64(1))
	f.Add(bytes(64, 128, 192, 64, 0, 8, 16), byte(9), uint64(0))
	f.Add(append([]byte("xdebugpy"), bytes(0x030d0000, 0, 8, 16, 24, 32)...), byte(13), uint64(64))
	f.Fuzz(func(t *testing.T, content []byte, minor byte, id uint64) {
		if len(content) < 16 || len(content) > 1<<16 {
			return
		}
		reads := 0
		mem := func(address uint64, to []byte) bool { // the content again and again, so that pointers lead somewhere
			reads++
			for i := range to {
				to[i] = content[(address+uint64(i))%uint64(len(content))]
			}
			return address%255 != 254 && len(to) <= maxTable
		}
		l, known := layouts[int(minor)]
		if !known {
			if l, known = publishedLayout(mem, 0); !known {
				return
			}
		}
		r := &Runtime{layout: l, codeType: binary.LittleEndian.Uint64(content[8:])}
		for _, pointer := range []uint64{0, id} {
			for _, c := range r.Calls(mem, pointer, id) {
				at, ok := r.Locate(mem, c)
				if ok && (len(at.Function) > 4*maxText || at.Line < 0) {
					t.Errorf("%+v", at)
				}
			}
		}
		if most := 2*(4*maxThreads+6*maxChain+2*maxInterpreters) + 2*stack.MaxFrames*20; reads > most {
			t.Errorf("%d reads", reads)
		}
	})
}

// bytes returns words as bytes.
func bytes(words ...uint64) (b []byte) {
	for _, w := range slices.Concat(words, words) {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
