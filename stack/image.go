package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ulikunitz/xz"
)

// An Image is an ELF file: a program, a library, or the vDSO. Only one goroutine at a time may call its methods.
type Image struct {
	file     io.ReaderAt
	elf      *elf.File
	segments []segment
	table    *frameTable     // nil: none
	sections []*frameSection // .debug_frame and, without a table, .eh_frame
	symbols  []*symbolTable
	once     sync.Once // reads symbols
}

// A segment is a part of an ELF file that is loaded into memory.
type segment struct{ offset, address, size uint64 }

// ErrNotELF is returned by OpenImage for a file that is not a 64-bit little-endian ELF file with plausible headers.
var ErrNotELF = errors.New("it is not an ELF file for this architecture")

// OpenImage reads the headers of an ELF file. It returns an error if the file is not a valid ELF file of a
// supported architecture.
func OpenImage(file io.ReaderAt) (m *Image, err error) {
	defer recoverAs(&err)
	if !plausible(file) {
		return nil, ErrNotELF
	}
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	m = &Image{file: file, elf: f}
	var header *elf.Prog
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_LOAD && p.Filesz > 0:
			m.segments = append(m.segments, segment{p.Off, p.Vaddr, p.Filesz})
		case p.Type == elf.PT_GNU_EH_FRAME:
			header = p
		}
	}
	m.findFrames(header)
	return m, nil
}

// plausible reports whether the header fields that determine how much memory package elf allocates have
// plausible values. These fields are the number of sections and the length of their names. The offsets in the
// code are from Elf64_Ehdr and Elf64_Shdr.
func plausible(file io.ReaderAt) bool {
	var head [64]byte
	if _, err := file.ReadAt(head[:], 0); err != nil || !bytes.HasPrefix(head[:], []byte("\x7fELF\x02\x01")) {
		return false
	}
	u16 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint16(head[at:])) }
	sections, sectionSize, names := u16(60), u16(58), u16(62)
	from := binary.LittleEndian.Uint64(head[40:])
	if sections == 0 {
		return from == 0 // more than 65,279 sections are counted elsewhere: no program has them
	}
	if sections > maxSections || u16(56) > maxSections || names >= sections || sectionSize != 64 {
		return false
	}
	var name [64]byte
	if _, err := file.ReadAt(name[:], int64(from+names*sectionSize)); err != nil {
		return false
	}
	return binary.LittleEndian.Uint64(name[32:]) <= 1<<20 && !isCompressed(name[:])
}

// recoverAs recovers from a panic that a hostile file has caused, and stores it in *err as an error.
func recoverAs(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("invalid file: %v", r)
	}
}

// addressAt returns the address at which a byte of the file is loaded. It returns false if the byte is not loaded.
func (m *Image) addressAt(offset uint64) (uint64, bool) {
	for _, s := range m.segments {
		if offset >= s.offset && offset-s.offset < s.size {
			return offset - s.offset + s.address, true
		}
	}
	return 0, false
}

// readFrom returns a function that reads the bytes of the file from the given address on. Its offsets are
// relative to that address. size is the number of bytes that can be read.
func (m *Image) readFrom(address uint64) (read func(offset uint64, n int) []byte, size uint64) {
	for _, s := range m.segments {
		if address >= s.address && address-s.address < s.size {
			from := address - s.address + s.offset
			return readerOf(m.file, from), s.size - (address - s.address)
		}
	}
	return nil, 0
}

func readerOf(file io.ReaderAt, base uint64) func(offset uint64, n int) []byte {
	return func(offset uint64, n int) []byte {
		buf := make([]byte, n)
		got, _ := file.ReadAt(buf, int64(base+offset))
		return buf[:max(got, 0)]
	}
}

// findFrames finds the call frame information of the file: .debug_frame, and the table for a binary search in
// .eh_frame_hdr. Without such a table, it uses .eh_frame.
func (m *Image) findFrames(header *elf.Prog) {
	if header != nil {
		if read, _ := m.readFrom(header.Vaddr); read != nil {
			table, frames := parseFrameTable(header.Vaddr, read)
			if read, size := m.readFrom(frames); table != nil && read != nil {
				table.frames = &frameSection{address: frames, size: size, read: read}
				m.table = table
			}
		}
	}
	for _, name := range []string{".debug_frame", ".eh_frame"} {
		s := m.elf.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS || name == ".eh_frame" && m.table != nil || s.Size > maxFrameSection {
			continue
		}
		section := &frameSection{address: s.Addr, debug: name == ".debug_frame", size: s.Size}
		var data []byte
		section.read = func(offset uint64, n int) []byte {
			if data == nil {
				data, _ = s.Data()
				data = append(data, 0) // not nil
			}
			if offset >= uint64(len(data)-1) {
				return nil
			}
			return data[offset:min(uint64(len(data)-1), offset+uint64(n))]
		}
		m.sections = append(m.sections, section)
	}
}

// findFDE returns the FDE (frame description entry) of the function that contains an address, or nil if there is
// none.
func (m *Image) findFDE(address uint64) (f *fde) {
	var err error
	defer recoverAs(&err)
	if m.table != nil {
		if f = m.table.find(address); f != nil {
			return f
		}
	}
	for _, s := range m.sections {
		if f = s.find(address); f != nil {
			return f
		}
	}
	return nil
}

// miniDebug returns the ELF file that is stored in the section .gnu_debugdata, or nil if there is none. On Fedora
// and other systems it contains the symbols of a stripped program.
func (m *Image) miniDebug() *elf.File {
	s := m.elf.Section(".gnu_debugdata")
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size > maxDebugData {
		return nil
	}
	config := xz.ReaderConfig{DictCap: maxDebugData, SingleStream: true}
	r, err := config.NewReader(s.Open())
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxDebugData))
	if err != nil || !plausible(bytes.NewReader(data)) {
		return nil
	}
	f, _ := elf.NewFile(bytes.NewReader(data))
	return f
}
