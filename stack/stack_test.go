package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"
)

// memory is words at addresses.
type memory map[uint64]uint64

func (m memory) read(address uint64, to []byte) bool {
	var buf [8]byte
	v, ok := m[address]
	binary.LittleEndian.PutUint64(buf[:], v)
	copy(to, buf[:])
	return ok && len(to) <= 8
}

// entryOf returns a CIE or FDE with its length.
func entryOf(content []byte) []byte {
	for len(content)%4 != 0 {
		content = append(content, 0) // DW_CFA_nop
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(content))), content...)
}

// debugFrame returns a .debug_frame section: a CIE with instructions, and functions of 16 bytes from 0x1000 on.
func debugFrame(returnAddress byte, cieCode []byte, functions ...[]byte) *frameSection {
	cie := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 3, 0, 1, 0x78, returnAddress}, cieCode)
	data := entryOf(cie)
	for i, code := range functions {
		fde := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, 0), uint64(0x1000+16*i))
		fde = binary.LittleEndian.AppendUint64(fde, 16)
		data = append(data, entryOf(append(fde, code...))...)
	}
	return sectionOf(data, true)
}

func sectionOf(data []byte, debug bool) *frameSection {
	return &frameSection{debug: debug, size: uint64(len(data)), read: func(offset uint64, n int) []byte {
		if offset > uint64(len(data)) {
			return nil
		}
		return data[offset:min(uint64(len(data)), offset+uint64(n))]
	}}
}

// addresses returns the program counters of a stack.
func addresses(frames []Address) (all []uint64) {
	for _, f := range frames {
		all = append(all, f.PC)
	}
	return all
}

// A function that was entered, one with a frame pointer, and one that saves it: the rules of amd64.
func TestUnwindAMD64(t *testing.T) {
	image := &Image{segments: []segment{{0, 0x1000, 0x1000}}, sections: []*frameSection{debugFrame(16,
		[]byte{0x0c, 7, 8, 0x80 | 16, 1}, // CFA = rsp+8, RA at CFA-8
		[]byte{},                         // a leaf
		[]byte{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6}, // push rbp; mov rsp, rbp
		[]byte{0x07, 16}, // the outermost: RA undefined
		[]byte{0x0f, 3, 0x77, 16, 0x06, 0x16, 16, 2, 0x77, 24}, // by expressions: CFA = *(rsp+16), RA = rsp+24
	)}}
	base := uint64(0x7f0000000000)
	mappings := []Mapping{{Start: base, End: base + 0x1000, Image: image, Path: "/a"}}
	at := func(a uint64) uint64 { return base + a - 0x1000 }
	for _, test := range []struct {
		name      string
		pc        uint64
		registers map[int]uint64
		memory    memory
		want      []uint64
	}{
		{"leaf, frame, outermost", at(0x1004), map[int]uint64{7: 0x9000, 6: 0x9010}, memory{0x9000: at(0x1018), 0x9010: 0x9990, 0x9018: at(0x1028)}, []uint64{at(0x1004), at(0x1018), at(0x1028)}},
		{"in the prologue", at(0x1010), map[int]uint64{7: 0x9000, 6: 1}, memory{0x9000: at(0x1028)}, []uint64{at(0x1010), at(0x1028)}},
		{"a call through a null pointer", 0, map[int]uint64{7: 0x9000}, memory{0x9000: at(0x1028)}, []uint64{0, at(0x1028)}},
		{"memory that cannot be read", at(0x1004), map[int]uint64{7: 0x9000}, memory{}, []uint64{at(0x1004)}},
		{"a stack that does not shrink", at(0x1018), map[int]uint64{7: 0x9000, 6: 0x9010}, memory{0x9010: 0x8000, 0x9018: at(0x1018), 0x8000: 0x8000, 0x8008: at(0x1018)}, []uint64{at(0x1018), at(0x1018)}},
		{"unknown registers", at(0x1018), map[int]uint64{7: 0x9000}, memory{}, []uint64{at(0x1018)}},
	} {
		regs := Registers{PC: test.pc}
		for n, v := range test.registers {
			regs.Set(n, v)
		}
		if got := addresses(Unwind(AMD64, regs, test.memory.read, mappings)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %#x, want %#x", test.name, got, test.want)
		}
	}
}

// arm64: a leaf returns by its link register, others have it on the stack, perhaps signed.
func TestUnwindARM64(t *testing.T) {
	image := &Image{segments: []segment{{0, 0x1000, 0x1000}}, sections: []*frameSection{debugFrame(30,
		[]byte{0x0c, 31, 0}, // CFA = sp
		[]byte{},            // a leaf
		[]byte{0x2d, 0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3}, // paciasp; stp x29, x30, [sp, -32]!
		[]byte{0x07, 30},
	)}}
	mappings := []Mapping{{Start: 0x5000, End: 0x6000, Image: image, Path: "/a"}}
	words := make([]uint64, 34)
	words[30], words[31], words[32] = 0x5018, 0x9000, 0x5004
	regs, ok := FromUser(ARM64, words)
	if !ok {
		t.Fatal("no registers")
	}
	got := addresses(Unwind(ARM64, regs, memory{0x9000: 0x9100, 0x9008: 0x00fb000000005028}.read, mappings))
	if want := []uint64{0x5004, 0x5018, 0x5028}; !slices.Equal(got, want) {
		t.Errorf("%#x, want %#x", got, want)
	}
	words[32], words[29], words[31] = 0x100, 0x9000, 0x8ff0 // without CFI: frame pointers
	regs, _ = FromUser(ARM64, words)
	mappings = append([]Mapping{{Start: 0x0, End: 0x1000, Path: "/jit"}}, mappings...)
	got = addresses(Unwind(ARM64, regs, memory{0x9000: 0x9100, 0x9008: 0x5028}.read, mappings))
	if want := []uint64{0x100, 0x5028}; !slices.Equal(got, want) {
		t.Errorf("%#x, want %#x", got, want)
	}
}

// Without call frame information and frame pointers, the first word of the stack that is behind a call counts. If a frame pointer is
// kept, it is the caller's if that call is in another file.
func TestUnwindByReturnAddresses(t *testing.T) {
	const program, library = 0x10000, 0x20000
	mappings := []Mapping{{Start: program, End: program + 0x1000, Path: "/program"}, {Start: library, End: library + 0x1000, Path: "/libc.so"}}
	call := uint64(0xe8 << 16)              // at -7: call rel32 is 5 bytes
	indirect := uint64(0xff<<40 | 0xd0<<48) // call *%rax is 2 bytes
	jump := uint64(0xff<<40 | 0xe0<<48)     // jmp *%rax
	link := uint64(0x97ffffff)              // bl
	for _, test := range []struct {
		name   string
		arch   Arch
		pc, fp uint64
		memory memory
		want   []uint64
	}{
		{"the first of two", AMD64, library + 8, 0, memory{0x9000: 5, 0x9008: library + 0x107, 0x9010: program + 0x207, library + 0x100: call, program + 0x200: indirect},
			[]uint64{library + 8, library + 0x107, program + 0x207}},
		{"data that is no return address", AMD64, library + 8, 0, memory{0x9000: library + 0x107, 0x9008: program + 0x207, library + 0x100: jump, program + 0x200: call},
			[]uint64{library + 8, program + 0x207}},
		{"a caller with a frame pointer", AMD64, library + 8, 0x9010, memory{0x9000: program + 0x207, 0x9008: 0, 0x9010: 0, 0x9018: program + 0x307, program + 0x200: call},
			[]uint64{library + 8, program + 0x207, program + 0x307}},
		{"a frame pointer of its own", AMD64, program + 8, 0x9010, memory{0x9000: program + 0x207, 0x9008: 0, 0x9010: 0, 0x9018: program + 0x307, program + 0x200: call},
			[]uint64{program + 8, program + 0x307}},
		{"arm64", ARM64, library + 8, 0, memory{0x9000: library + 0x108, 0x9008: program + 0x204, program + 0x200: link, library + 0x104: 0xd65f03c0}, []uint64{library + 8, program + 0x204}},
		{"nothing", AMD64, library + 8, 0, memory{0x9000: 1, 0x9008: 2}, []uint64{library + 8}},
	} {
		regs := Registers{PC: test.pc}
		regs.Set(layouts[test.arch].sp, 0x9000)
		regs.Set(layouts[test.arch].fp, test.fp)
		if got := addresses(Unwind(test.arch, regs, test.memory.read, mappings)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %#x, want %#x", test.name, got, test.want)
		}
	}
}

// An expression that never ends, underflows, or reads what is not there gives no value.
func TestExpressions(t *testing.T) {
	var regs Registers
	regs.Set(7, 100)
	for _, test := range []struct {
		code []byte
		want uint64
		ok   bool
	}{
		{[]byte{0x77, 8}, 108, true},
		{[]byte{0x35, 0x34, 0x22}, 9, true},
		{[]byte{0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 116, true}, // that of a PLT, at address 15
		{[]byte{0x2f, 0xfd, 0xff}, 0, false},
		{[]byte{0x22}, 0, false},
		{[]byte{0x06}, 0, false},
		{[]byte{0x70, 0}, 0, false},
		{[]byte{0x35, 0x30, 0x1b}, 0, false},
		{[]byte{0xe0}, 0, false},
		{nil, 0, false},
		{bytes.Repeat([]byte{0x31}, 100), 0, false},
		{[]byte{0x15, 200}, 0, false},
	} {
		got, ok := evaluate(test.code, &regs, memory{}.read, 16, 15)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("% x: %d %v, want %d %v", test.code, got, ok, test.want, test.ok)
		}
	}
}

// Of several names of a function the one that users know is taken.
func TestNicer(t *testing.T) {
	for _, order := range []string{"MPI_Send PMPI_Send", "write __write __libc_write", "MPI_Init a", "sleep __sleep"} {
		names := strings.Fields(order)
		for i := range names[1:] {
			if !nicer(names[i], names[i+1]) || nicer(names[i+1], names[i]) {
				t.Errorf("%s: %s is not the nicer one", order, names[i])
			}
		}
	}
	for name, want := range map[string]string{"_ZN4mesh5relaxEd": "mesh::relax", "_ZN4mesh5relaxEd.constprop.0": "mesh::relax", "main": "main", "_Zzz": "_Zzz", "": ""} {
		if got := Demangle(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Files that claim more than they have, and units that share one large table, are refused before package dwarf allocates memory for them:
// that would end the process.
func TestHostileDebugInformation(t *testing.T) {
	all := samples(t)
	if all == nil {
		t.Skip("needs gcc")
	}
	file := all[0] // DWARF 5
	lines := func(file []byte) int {
		m, err := OpenImage(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		n, symbol := 0, m.Lookup("f")["f"]
		for _, l := range m.Symbolize([]uint64{symbol.Address}, time.Now().Add(time.Minute))[symbol.Address] {
			n += l.Line
		}
		return n
	}
	if lines(file) == 0 {
		t.Fatal("no line of the intact file")
	}
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{12 + 2 + 5 + 13, 12 + 2 + 5 + 13 + 1} { // the count of folders, or the byte before or after it
		hostile := slices.Clone(file)
		copy(hostile[int(f.Section(".debug_line").Offset)+at:], "\xff\xff\xff\xff\xff\x1f")
		lines(hostile)
	}
	for _, test := range []struct {
		name         string
		info, abbrev []byte
		want         bool
	}{
		{"two units with a table", slices.Concat(unitOf(4, 0), unitOf(4, 0)), []byte{1, 0x11, 1, 3, 8, 0, 0, 0}, true},
		{"parts of one table", slices.Concat(unitOf(4, 0), unitOf(4, 4)), []byte{1, 0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 0}[:11], false},
		{"two tables", slices.Concat(unitOf(4, 0), unitOf(4, 6)), []byte{1, 0x11, 0, 0, 0, 0, 1, 0x11, 0, 0, 0, 0}, true},
		{"a table that does not end", unitOf(4, 0), []byte{1, 0x11, 0, 0, 0, 1}, false},
		{"a table outside of the section", unitOf(4, 7), []byte{0}, false},
		{"a unit that is cut off", unitOf(4, 0)[:9], []byte{0}, false},
		{"too many units", bytes.Repeat(unitOf(4, 0), maxUnits+1), []byte{0}, false},
		{"nothing", nil, nil, true},
	} {
		if got := plausibleUnits(test.info, test.abbrev); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	for name, header := range map[string]string{
		"2^40 folders without a form": "\x00\xff\xff\xff\xff\xff\x1f", "2^40 folders": "\x01\x01\x08\xff\xff\xff\xff\xff\x1f",
		"2^40 files": "\x01\x01\x08\x00\x01\x01\x08\xff\xff\xff\xff\xff\x1f", "an unknown form": "\x01\x01\x77\x01aaaaaaaaaa",
	} {
		program := slices.Concat([]byte{0, 1, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, []byte(header), make([]byte, 40))
		if plausibleLines(program, 0) {
			t.Error(name)
		}
	}
	if plausibleLines(nil, 1) || plausibleLines(nil, -1) {
		t.Error("a program outside of the section")
	}
}

// unitOf returns the header of a unit of .debug_info whose abbreviations are at an offset.
func unitOf(version uint16, table uint32) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{7, 0, 0, 0}, version)
	return append(binary.LittleEndian.AppendUint32(b, table), 8)
}

// Whatever call frame information says, an unwinder ends, within its bounds.
func FuzzUnwind(f *testing.F) {
	f.Add([]byte{0x0c, 7, 8, 0x90, 1}, []byte{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6}, uint64(0x1018))
	f.Add([]byte{0x0c, 31, 0}, []byte{0x0a, 0x0b, 0x0f, 3, 0x77, 16, 0x06}, uint64(0x1011))
	f.Fuzz(func(t *testing.T, cie, code []byte, pc uint64) {
		s := debugFrame(16, cie, code, code)
		image := &Image{segments: []segment{{0, 0x1000, 0x1000}}, sections: []*frameSection{s}}
		var regs Registers
		for i := range registerCount {
			regs.Set(i, 0x9000)
		}
		regs.PC = pc
		anything := func(address uint64, to []byte) bool {
			for i := range to {
				to[i] = byte((address + uint64(i)) >> 3)
			}
			return address%5 != 0
		}
		for _, a := range []Arch{AMD64, ARM64} {
			if frames := Unwind(a, regs, anything, []Mapping{{Start: 0x1000, End: 0x2000, Image: image}}); len(frames) > MaxFrames {
				t.Errorf("%d frames", len(frames))
			}
		}
		raw := sectionOf(slices.Concat(cie, code), pc%2 == 0)
		raw.find(pc)
	})
}

// Whatever an ELF file says, it is refused or read within the bounds.
func FuzzImage(f *testing.F) {
	for _, image := range samples(f) {
		f.Add(image, 0, byte(0))
		f.Add(image, 40, byte(0xff))
	}
	f.Fuzz(func(t *testing.T, file []byte, at int, with byte) {
		if len(file) > 1<<20 {
			return
		}
		file = slices.Clone(file)
		if at >= 0 && at < len(file) {
			file[at] = with
		}
		m, err := OpenImage(bytes.NewReader(file))
		if err != nil {
			return
		}
		var wanted []uint64
		for _, s := range m.segments {
			wanted = append(wanted, s.address, s.address+s.size/2, s.address+s.size-1)
		}
		for _, a := range wanted {
			if f := m.findFDE(a); f != nil {
				f.rowAt(a)
			}
		}
		m.Symbolize(wanted, time.Now().Add(time.Second))
	})
}

// Headers and sources of compilers and libraries are told from files of the user by their folders.
func TestLibraryFiles(t *testing.T) {
	for file, want := range map[string]bool{
		"/usr/include/c++/12/bits/basic_string.h":                                       true,
		"/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_vector.h": true,
		"/usr/lib/gcc/x86_64-linux-gnu/12/include/immintrin.h":                          true,
		"/usr/lib/x86_64-linux-gnu/openmpi/include/openmpi/ompi/mpi/cxx/comm_inln.h":    true,
		"/usr/local/include/Eigen/src/Core/Matrix.h":                                    true,
		"/opt/gcc-13/include/c++/13/bits/stl_algo.h":                                    true,
		"/opt/llvm/lib/clang/17/include/xmmintrin.h":                                    true,
		"../../../../../src/libstdc++-v3/src/c++11/thread.cc":                           true,
		"/rustc/90b35a623/library/core/src/iter/range.rs":                               true,
		"/home/ann/solver/src/mesh.cc":                                                  false,
		"/home/ann/solver/include/mesh.h":                                               false,
		"/usr/src/solver/mesh.cc":                                                       false,
		"/usr/include/../../home/ann/mesh.h":                                            false,
		"mesh.cc":                                                                       false,
		"":                                                                              false,
	} {
		if got := isLibraryFile(file); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
}
