/*
Package python reads the Python calls of a thread from the memory of another process that runs CPython. It
complements package stack. Like that package, it does not use ptrace, and knows nothing about processes.

	mappings --Find--> Runtime    the interpreter, and where the fields of its structures are
	   --Calls--> Calls           of one thread, while it is stopped: code objects and instructions
	   --Locate--> Locations      later: function, file and line

For CPython 3.9 to 3.12 the package has a table of offsets. CPython 3.13 publishes its offsets in its memory. Other
versions are not supported. On arm64 the versions are 3.11 to 3.13: earlier ones identify a thread only by the result
of pthread_self.

The memory may be hostile. Therefore chains, texts and tables have limits, and an object is treated as code only if it
has the type of code objects.
*/
package python

import (
	"encoding/binary"
	"path"
	"strconv"
	"strings"

	"remshell/stack"
)

// These constants limit how much of a process's memory is read.
const (
	maxInterpreters = 64
	maxThreads      = 4 * stack.MaxThreads
	maxChain        = 2 * stack.MaxFrames // frames of a thread, with those that are no calls
	maxText         = 1 << 10             // code units of a name; the rest is left out
	maxTable        = 1 << 20             // bytes of a table of lines
)

// A Runtime is the CPython interpreter in a process.
type Runtime struct {
	Image     *stack.Image // the ELF file with the interpreter
	layout    layout
	evaluator stack.Symbol // _PyEval_EvalFrameDefault
	runtime   uint64       // address of _PyRuntime
	codeType  uint64       // address of PyCode_Type
}

// A Call is one call of a Python function on a thread's stack.
type Call struct {
	Entry       bool // the evaluator was called for it; otherwise its caller's evaluator runs it
	code        uint64
	instruction uint64
}

// A Finder finds CPython interpreters in processes. It searches each file only once. The zero value is ready to
// use. Only one goroutine at a time may use a Finder.
type Finder struct {
	symbols map[*stack.Image]map[string]stack.Symbol
}

// Find returns the CPython interpreter among the mappings of a process. It returns nil if there is none or its
// version is not supported.
func (f *Finder) Find(mappings []stack.Mapping, mem stack.Memory) *Runtime {
	for i := range mappings {
		m := &mappings[i]
		name := path.Base(m.Path)
		if m.Image == nil || !strings.HasPrefix(name, "python") && !strings.HasPrefix(name, "libpython") {
			continue
		}
		symbols, known := f.symbols[m.Image]
		if !known {
			if f.symbols == nil {
				f.symbols = make(map[*stack.Image]map[string]stack.Symbol)
			}
			symbols = m.Image.Lookup("_PyRuntime", "PyCode_Type", "_PyEval_EvalFrameDefault", "Py_Version")
			f.symbols[m.Image] = symbols
		}
		runtime, has := symbols["_PyRuntime"]
		codeType, hasType := symbols["PyCode_Type"]
		if !has || !hasType {
			continue
		}
		r := &Runtime{Image: m.Image, evaluator: symbols["_PyEval_EvalFrameDefault"], runtime: m.AddressOf(runtime), codeType: m.AddressOf(codeType)}
		minor := minorOfName(name)
		if version, has := symbols["Py_Version"]; has { // since 3.11
			if v, ok := reader(mem).word(m.AddressOf(version)); ok && uint32(v)>>24 == 3 {
				minor = int(uint32(v) >> 16 & 0xff)
			}
		}
		known = false
		if r.layout, known = layouts[minor]; !known {
			r.layout, known = publishedLayout(mem, r.runtime)
		}
		if known {
			return r
		}
	}
	return nil
}

// minorOfName returns the minor version of Python in the name of an interpreter's file, or 0 if the name has none.
func minorOfName(name string) int {
	_, rest, _ := strings.Cut(name, "python3.")
	digits, _, _ := strings.Cut(rest, ".")
	minor, _ := strconv.Atoi(digits)
	return minor
}

// Evaluates reports whether an address of the interpreter's file is in the function that evaluates Python frames.
func (r *Runtime) Evaluates(address uint64) bool {
	return address >= r.evaluator.Address && address-r.evaluator.Address < r.evaluator.Size
}

// A reader reads numbers from the memory of a process.
type reader stack.Memory

func (m reader) word(address uint64) (uint64, bool) {
	var buf [8]byte
	if !m(address, buf[:]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(buf[:]), true
}

func (m reader) half(address uint64) (uint32, bool) {
	var buf [4]byte
	if !m(address, buf[:]) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(buf[:]), true
}

// pointer reads a pointer. It returns 0 if the memory cannot be read.
func (m reader) pointer(address uint64) uint64 {
	v, _ := m.word(address)
	return v
}

// Calls returns the Python calls of a thread, innermost first. The thread must be stopped. threadPointer identifies
// the thread. If threadPointer is 0, the thread is identified by tid, which is the thread's ID as its process sees
// it. If Python does not know the thread, Calls returns nil.
func (r *Runtime) Calls(mem stack.Memory, threadPointer, tid uint64) (calls []Call) {
	m, l := reader(mem), &r.layout
	frame := r.frameOf(m, threadPointer, tid)
	for n := 0; frame != 0 && n < maxChain && len(calls) < stack.MaxFrames; n++ {
		code, ok := m.word(frame + l.code)
		if !ok {
			break
		}
		if l.entryOwner != 0 {
			if owner, ok := m.half(frame + l.entry); !ok || byte(owner) >= l.entryOwner {
				if len(calls) > 0 {
					calls[len(calls)-1].Entry = true
				}
				frame = m.pointer(frame + l.previous)
				continue
			}
		}
		c := Call{code: code}
		if l.bytecode == none {
			last, _ := m.half(frame + l.instruction)
			c.instruction = uint64(int64(int32(last)))
		} else {
			c.instruction = m.pointer(frame + l.instruction)
		}
		switch {
		case l.entry == none: // each call has an evaluator of its own
			c.Entry = true
		case l.entryOwner == 0:
			flag, _ := m.half(frame + l.entry)
			c.Entry = byte(flag) != 0
		}
		if m.pointer(code+l.objectType) != r.codeType {
			break
		}
		calls = append(calls, c)
		frame = m.pointer(frame + l.previous)
	}
	if len(calls) > 0 {
		calls[len(calls)-1].Entry = true // also if those around it are left out
	}
	return calls
}

// frameOf returns the address of the innermost Python frame of a thread, or 0 if there is none.
func (r *Runtime) frameOf(m reader, threadPointer, tid uint64) uint64 {
	l := &r.layout
	idAt, id := l.threadID, threadPointer
	if threadPointer == 0 {
		if idAt, id = l.nativeID, tid; idAt == none {
			return 0
		}
	}
	interpreter := m.pointer(r.runtime + l.interpreters)
	threads := 0
	for n := 0; interpreter != 0 && n < maxInterpreters; n++ {
		for t := m.pointer(interpreter + l.threads); t != 0 && threads < maxThreads; threads++ {
			if got, ok := m.word(t + idAt); ok && got == id && m.pointer(t+l.interpreter) == interpreter {
				frame := m.pointer(t + l.frame)
				if l.inCFrame != none && frame != 0 {
					frame = m.pointer(frame + l.inCFrame)
				}
				return frame
			}
			t = m.pointer(t + l.nextThread)
		}
		interpreter = m.pointer(interpreter + l.nextInterpreter)
	}
	return 0
}

// Locate returns the function, file and line of a call. It returns false if the code object is gone or cannot be read.
func (r *Runtime) Locate(mem stack.Memory, c Call) (at stack.Location, ok bool) {
	m, l := reader(mem), &r.layout
	if m.pointer(c.code+l.objectType) != r.codeType { // freed meanwhile
		return at, false
	}
	if at.Function = r.text(m, m.pointer(c.code+l.name)); at.Function == "" {
		return at, false
	}
	if file := r.text(m, m.pointer(c.code+l.file)); file != "" {
		at.File = path.Base(file)
	}
	first, ok := m.half(c.code + l.firstLine)
	if !ok {
		return at, true
	}
	offset := c.instruction
	if l.bytecode != none {
		offset -= c.code + l.bytecode
	}
	at.Line = lineAt(l.table, r.table(m, m.pointer(c.code+l.lines)), int(int32(first)), int(int64(offset)))
	return at, true
}

// table returns the content of a Python bytes object. It returns nil if the object cannot be read or exceeds maxTable.
func (r *Runtime) table(m reader, object uint64) []byte {
	n, ok := m.word(object + r.layout.byteCount)
	if !ok || n > maxTable {
		return nil
	}
	content := make([]byte, n)
	if !m(object+r.layout.bytes, content) {
		return nil
	}
	return content
}

// text returns the contents of a Python str object, or "" if object is not one. The state of the object
// consists of these bits, from the lowest: 2 bits for interned, 3 for the size of a code unit, 1 for compact, 1
// for ascii.
func (r *Runtime) text(m reader, object uint64) string {
	l := &r.layout
	state, ok1 := m.half(object + l.state)
	n, ok2 := m.word(object + l.length)
	width, compact, ascii := int(state>>2&7), state>>5&1 == 1, state>>6&1 == 1
	if !ok1 || !ok2 || !compact || width != 1 && width != 2 && width != 4 {
		return ""
	}
	start := object + l.compact
	if ascii {
		start = object + l.ascii
	}
	raw := make([]byte, int(min(n, maxText))*width)
	if !m(start, raw) {
		return ""
	}
	var b strings.Builder
	for ; len(raw) > 0; raw = raw[width:] {
		var unit [4]byte
		copy(unit[:], raw[:width])
		b.WriteRune(rune(binary.LittleEndian.Uint32(unit[:])))
	}
	return b.String()
}
