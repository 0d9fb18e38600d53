package pmidetect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// An object is an ELF file, reduced to the parts that the kernel and the dynamic loader use (gABI 4.1,
// chapters 5 and 7). ELF sections are not read, because they may be stripped.
type object struct {
	order          binary.ByteOrder
	segments       []elf.Prog64 // loadable segments
	hasInterpreter bool         // it has a program interpreter (PT_INTERP)
	needed         []string     // names of needed libraries, in order

	rpath, runpath string
}

// These are limits for an ELF file. A file that exceeds one is treated as damaged.
const (
	maxHeaderBytes  = 64 << 10 // bytes
	maxDynamicBytes = 64 << 10 // bytes
	maxNeeded       = 512
	maxNameBytes    = 16 << 10 // bytes of a name or search path
)

var (
	errNotELF  = errors.New("the program is not a 64-bit ELF file")
	errDamaged = errors.New("damaged ELF file")
)

// readObject reads the ELF headers and the dynamic table of a file.
func readObject(f io.ReaderAt) (*object, error) {
	head := make([]byte, 1024) // usually includes all headers
	n, err := f.ReadAt(head, 0)
	if n < 64 || string(head[:4]) != elf.ELFMAG || elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		if err != nil && err != io.EOF {
			return nil, err
		}
		return nil, errNotELF
	}
	head = head[:n]
	o := &object{order: binary.LittleEndian}
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		o.order = binary.BigEndian
	}
	var h elf.Header64
	binary.Decode(head, o.order, &h)
	size := int(h.Phnum) * binary.Size(elf.Prog64{})
	if size > maxHeaderBytes || h.Phentsize != 56 && h.Phnum > 0 {
		return nil, errDamaged
	}
	table, err := readPiece(f, head, h.Phoff, size)
	if err != nil {
		return nil, err
	}
	headers := make([]elf.Prog64, h.Phnum)
	binary.Decode(table, o.order, headers)
	return o, o.readHeaders(f, head, headers)
}

// readPiece returns size bytes of a file, starting at offset. head contains the beginning of the file, which was
// already read.
func readPiece(f io.ReaderAt, head []byte, offset uint64, size int) ([]byte, error) {
	if offset <= uint64(len(head)) && uint64(len(head))-offset >= uint64(size) {
		return head[offset:][:size], nil
	}
	if int64(offset) < 0 {
		return nil, errDamaged
	}
	piece := make([]byte, size)
	if n, _ := f.ReadAt(piece, int64(offset)); n < size {
		return nil, errDamaged
	}
	return piece, nil
}

// readHeaders processes the program headers and the dynamic table.
func (o *object) readHeaders(f io.ReaderAt, head []byte, headers []elf.Prog64) error {
	var dynamic *elf.Prog64
	for i, p := range headers {
		switch elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			o.segments = append(o.segments, p)
		case elf.PT_INTERP:
			o.hasInterpreter = true
		case elf.PT_DYNAMIC:
			dynamic = &headers[i]
		}
	}
	if dynamic == nil {
		return nil
	}
	if dynamic.Filesz > maxDynamicBytes {
		return errDamaged
	}
	table, err := readPiece(f, head, dynamic.Off, int(dynamic.Filesz))
	if err != nil {
		return err
	}
	entries := make([]elf.Dyn64, len(table)/16)
	binary.Decode(table, o.order, entries)
	return o.readDynamic(f, entries)
}

// readDynamic processes the entries of the dynamic table: needed libraries and search paths.
func (o *object) readDynamic(f io.ReaderAt, entries []elf.Dyn64) error {
	tagged := func(tag elf.DynTag) func(elf.Dyn64) bool {
		return func(e elf.Dyn64) bool { return elf.DynTag(e.Tag) == tag }
	}
	if end := slices.IndexFunc(entries, tagged(elf.DT_NULL)); end >= 0 {
		entries = entries[:end]
	}
	table := uint64(0) // offset of the string table
	if i := slices.IndexFunc(entries, tagged(elf.DT_STRTAB)); i >= 0 {
		table = o.fileOffset(entries[i].Val)
	}
	for _, e := range entries {
		var err error
		switch elf.DynTag(e.Tag) {
		case elf.DT_NEEDED:
			if len(o.needed) == maxNeeded {
				return errDamaged
			}
			var name string
			name, err = readName(f, table, e.Val)
			o.needed = append(o.needed, name)
		case elf.DT_RPATH:
			o.rpath, err = readName(f, table, e.Val)
		case elf.DT_RUNPATH:
			o.runpath, err = readName(f, table, e.Val)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileOffset returns the file offset of a virtual address, or 0 if the address is not in the file.
func (o *object) fileOffset(address uint64) uint64 {
	for _, p := range o.segments {
		if address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return p.Off + address - p.Vaddr
		}
	}
	return 0
}

// readName reads a string from the string table of a file. table is the offset of the string table in the file, and
// offset is the offset of the string in the table.
func readName(f io.ReaderAt, table, offset uint64) (string, error) {
	if table == 0 || int64(table+offset) < 0 || table+offset < table {
		return "", errDamaged
	}
	for size := 256; size <= maxNameBytes; size *= 4 {
		piece := make([]byte, size)
		n, _ := f.ReadAt(piece, int64(table+offset))
		if name, _, ended := bytes.Cut(piece[:n], []byte{0}); ended {
			return string(name), nil
		}
		if n < size {
			break
		}
	}
	return "", errDamaged
}

// isDynamic reports whether the object is dynamically linked.
func (o *object) isDynamic() bool { return o.hasInterpreter || len(o.needed) > 0 }

// These constants limit what the method contains reads of an ELF file.
const (
	maxSearchedBytes = 64 << 20 // bytes
	searchStep       = 256 << 10
)

// contains reports, for each word, whether it occurs in the read-only segments of an object. All results are
// false if these segments are larger than maxSearchedBytes or cannot be read.
func (o *object) contains(f io.ReaderAt, words ...string) []bool {
	found, none := make([]bool, len(words)), make([]bool, len(words))
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	step := make([]byte, searchStep+longest)
	searched := 0
	for _, p := range o.segments {
		if elf.ProgFlag(p.Flags)&elf.PF_W != 0 || int64(p.Off) < 0 {
			continue
		}
		for at := uint64(0); at < p.Filesz; at += searchStep {
			if searched += searchStep; searched > maxSearchedBytes {
				return none
			}
			piece := step[:min(uint64(len(step)), p.Filesz-at)]
			n, err := f.ReadAt(piece, int64(p.Off+at))
			if err != nil && err != io.EOF {
				return none
			}
			text := piece[:n]
			for i, w := range words {
				found[i] = found[i] || bytes.Contains(text, []byte(w))
			}
			if n < len(piece) {
				break
			}
		}
	}
	return found
}
