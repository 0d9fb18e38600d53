package python

import (
	"encoding/binary"

	"remshell/stack"
)

// A layout contains the offsets of fields in the structures of a CPython interpreter.
type layout struct {
	// _PyRuntimeState, PyInterpreterState, PyThreadState
	interpreters, nextInterpreter, threads, nextThread, interpreter, threadID, nativeID uint64
	frame                                                                               uint64 // the current frame, or a _PyCFrame that has it
	inCFrame                                                                            uint64 // none: frame is the frame itself

	// PyFrameObject before 3.11, then _PyInterpreterFrame
	code, previous, instruction, entry uint64
	entryOwner                         byte // entry has at least this value in the frame below an entry frame; 0: it is a flag of the entry frame

	// PyCodeObject
	name, file, firstLine, lines uint64
	bytecode                     uint64 // none: instruction is an index, not an address
	table                        tableKind

	// PyObject, PyUnicodeObject, PyBytesObject
	objectType, length, state, ascii, compact, byteCount, bytes uint64
}

// none is the offset of a field that a version of CPython does not have.
const none = ^uint64(0)

// A tableKind is the format in which a version of CPython stores the line numbers of a function.
type tableKind int

const (
	lineDeltas    tableKind = iota // 3.9: co_lnotab
	lineRanges                     // 3.10: co_linetable of PEP 626
	lineLocations                  // 3.11 and later
)

// layouts maps minor versions of CPython to layouts. It contains the versions that do not publish their
// offsets. The offsets are for 64-bit builds, from the headers of the releases:
// Include/internal/pycore_{runtime,interp,frame}.h and
// Include/cpython/{pystate,code,frameobject,unicodeobject}.h.
var layouts = map[int]layout{
	9: {
		interpreters: 32, nextInterpreter: 0, threads: 8, nextThread: 8, interpreter: 16, threadID: 176, nativeID: none, frame: 24, inCFrame: none,
		code: 32, previous: 24, instruction: 104, entry: none,
		name: 112, file: 104, firstLine: 40, lines: 120, bytecode: none, table: lineDeltas,
		objectType: 8, length: 16, state: 32, ascii: 48, compact: 72, byteCount: 16, bytes: 32,
	},
	10: {
		interpreters: 32, nextInterpreter: 0, threads: 8, nextThread: 8, interpreter: 16, threadID: 176, nativeID: none, frame: 24, inCFrame: none,
		code: 32, previous: 24, instruction: 96, entry: none,
		name: 112, file: 104, firstLine: 40, lines: 120, bytecode: none, table: lineRanges,
		objectType: 8, length: 16, state: 32, ascii: 48, compact: 72, byteCount: 16, bytes: 32,
	},
	11: {
		interpreters: 40, nextInterpreter: 0, threads: 16, nextThread: 8, interpreter: 16, threadID: 152, nativeID: 160, frame: 56, inCFrame: 8,
		code: 32, previous: 48, instruction: 56, entry: 68,
		name: 128, file: 112, firstLine: 72, lines: 136, bytecode: 184, table: lineLocations,
		objectType: 8, length: 16, state: 32, ascii: 48, compact: 72, byteCount: 16, bytes: 32,
	},
	12: {
		interpreters: 40, nextInterpreter: 0, threads: 72, nextThread: 8, interpreter: 16, threadID: 136, nativeID: 144, frame: 56, inCFrame: 0,
		code: 0, previous: 8, instruction: 56, entry: 70, entryOwner: 3,
		name: 128, file: 112, firstLine: 68, lines: 136, bytecode: 192, table: lineLocations,
		objectType: 8, length: 16, state: 32, ascii: 40, compact: 56, byteCount: 16, bytes: 32,
	},
}

// debugWords is the number of words that follow the cookie in the _Py_DebugOffsets of CPython 3.13. maxOffset is the
// largest offset that is accepted.
const (
	debugWords = 72
	maxOffset  = 1 << 20
)

// publishedLayout reads the _Py_DebugOffsets, which are at the beginning of _PyRuntime in CPython 3.13
// (Include/internal/pycore_runtime.h). It returns false if they are missing or belong to another version.
func publishedLayout(mem stack.Memory, runtime uint64) (l layout, ok bool) {
	var raw [8 + 8*debugWords]byte
	if !mem(runtime, raw[:]) || string(raw[:8]) != "xdebugpy" {
		return l, false
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(raw[8+8*i:]) }
	if word(0)>>16 != 0x030d {
		return l, false
	}
	l = layout{inCFrame: none, entryOwner: 3, table: lineLocations}
	for i, field := range map[int]*uint64{
		4: &l.interpreters, 7: &l.nextInterpreter, 8: &l.threads,
		20: &l.nextThread, 21: &l.interpreter, 22: &l.frame, 23: &l.threadID, 24: &l.nativeID,
		28: &l.previous, 29: &l.code, 30: &l.instruction, 32: &l.entry,
		34: &l.file, 36: &l.name, 37: &l.lines, 38: &l.firstLine, 42: &l.bytecode,
		44: &l.objectType, 64: &l.byteCount, 65: &l.bytes, 67: &l.state, 68: &l.length, 69: &l.ascii,
	} {
		if *field = word(i); *field > maxOffset {
			return l, false
		}
	}
	l.compact = l.ascii + 16 // utf8_length, utf8
	return l, true
}
