package stack

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// A cie is a common information entry of call frame information. It contains the information that the frame entries of
// many functions share.
type cie struct {
	codeFactor    uint64
	dataFactor    int64
	returnAddress uint64 // the column of the return address
	pointerForm   byte   // how FDEs write addresses: DW_EH_PE_*
	augmented     bool   // FDEs have augmentation data
	signal        bool   // of a signal frame: its address is the interrupted instruction, not behind a call
	instructions  []byte
}

// An fde is a frame description entry. It says how to find the caller's registers in the function at [begin, end).
type fde struct {
	*cie
	begin, end   uint64
	instructions []byte
}

// These are the encodings of pointers in .eh_frame (DW_EH_PE, LSB 10.5.1).
const (
	formAbsolute = 0x00
	formOmit     = 0xff
	formPCRel    = 0x10
	formDataRel  = 0x30
	formIndirect = 0x80

	formHdrTable = formDataRel | 0x0b // a pair of sdata4, relative to .eh_frame_hdr
)

// pointer reads a pointer that is encoded in the given form. at is the address of the first byte of b. base is the
// address to which formDataRel is relative.
func (b *byteReader) pointer(form byte, at, base uint64) uint64 {
	from := at + uint64(b.pos)
	var value uint64
	switch form & 0x0f {
	case 0x00, 0x04, 0x0c:
		value = b.u64()
	case 0x01:
		value = b.uleb()
	case 0x02:
		value = uint64(b.u16())
	case 0x03:
		value = uint64(b.u32())
	case 0x09:
		value = uint64(b.sleb())
	case 0x0a:
		value = uint64(int64(int16(b.u16())))
	case 0x0b:
		value = uint64(int64(int32(b.u32())))
	default:
		b.failed = true
	}
	switch form & 0x70 {
	case formAbsolute:
	case formPCRel:
		value += from
	case formDataRel:
		value += base
	default:
		b.failed = true
	}
	return value
}

// A frameSection is a section of an ELF file with call frame information.
type frameSection struct {
	address uint64 // of its first byte
	debug   bool   // .debug_frame: other marks, absolute addresses
	size    uint64
	read    func(offset uint64, n int) []byte // returns fewer bytes at the end
	index   []indexEntry                      // of all FDEs, by address; nil: not made
	cies    map[uint64]*cie                   // by offset; nil values: invalid
}

type indexEntry struct{ begin, end, offset uint64 }

// entry reads the entry at an offset. content is the entry without the length at its start, and begins with the
// entry's ID, which is at offset at. next is the offset of the next entry, or 0 if there is none.
func (s *frameSection) entry(offset uint64) (content []byte, at, next uint64) {
	head := s.read(offset, 4)
	if len(head) < 4 {
		return nil, 0, 0
	}
	length := uint64(binary.LittleEndian.Uint32(head))
	// The terminator has length 0. Entries of 4 GiB (length 0xffffffff) do not exist outside of tests.
	if length < 4 || length > s.size || offset+4+length > s.size {
		return nil, 0, 0
	}
	at, next = offset+4, offset+4+length
	if length > maxEntryBytes {
		return nil, at, next
	}
	if content = s.read(at, int(length)); uint64(len(content)) < length {
		return nil, 0, 0
	}
	return content, at, next
}

// cieAt returns the CIE at an offset, or nil if there is no valid CIE.
func (s *frameSection) cieAt(offset uint64) *cie {
	if c, known := s.cies[offset]; known {
		return c
	}
	if s.cies == nil || len(s.cies) > 10000 {
		s.cies = make(map[uint64]*cie)
	}
	var c *cie
	if content, at, _ := s.entry(offset); content != nil && binary.LittleEndian.Uint32(content) == s.cieID() {
		c = parseCIE(content, s.address+at)
	}
	s.cies[offset] = c
	return c
}

func (s *frameSection) cieID() uint32 {
	if s.debug {
		return 0xffffffff
	}
	return 0
}

// parseCIE parses a CIE, or returns nil if the CIE has an unknown version or format. content begins with the ID
// of the CIE and is loaded at address.
func parseCIE(content []byte, address uint64) *cie {
	b := &byteReader{data: content, pos: 4}
	version := b.u8()
	augmentation := b.text()
	if version == 4 {
		if size, segment := b.u8(), b.u8(); size != 8 || segment != 0 {
			return nil
		}
	} else if version != 1 && version != 3 {
		return nil
	}
	c := &cie{codeFactor: b.uleb(), dataFactor: b.sleb()}
	if c.returnAddress = uint64(b.u8()); version > 1 {
		b.pos--
		c.returnAddress = b.uleb()
	}
	if letters, is := strings.CutPrefix(augmentation, "z"); is {
		c.augmented = true
		end := b.uleb()
		if end += uint64(b.pos); end > uint64(len(content)) {
			return nil
		}
		for _, letter := range letters {
			switch letter {
			case 'R':
				c.pointerForm = b.u8()
			case 'L':
				b.u8()
			case 'P':
				form := b.u8()
				b.pointer(form&^formIndirect, address, 0)
			case 'S':
				c.signal = true
			}
		}
		b.pos = int(end)
	} else if augmentation != "" {
		return nil
	}
	if b.failed || b.pos > len(content) {
		return nil
	}
	c.instructions = content[b.pos:]
	return c
}

// fdeAt returns the FDE at an offset, or nil if there is none. next is the offset of the entry that follows, or 0.
func (s *frameSection) fdeAt(offset uint64) (f *fde, next uint64) {
	content, at, next := s.entry(offset)
	if content == nil {
		return nil, next
	}
	b := &byteReader{data: content}
	id := b.u32()
	if id == s.cieID() {
		return nil, next
	}
	where := uint64(id)
	if !s.debug {
		where = at - where
	}
	c := s.cieAt(where)
	if c == nil {
		return nil, next
	}
	f = &fde{cie: c}
	form := c.pointerForm
	if s.debug {
		form = formAbsolute
	}
	f.begin = b.pointer(form, s.address+at, 0)
	f.end = f.begin + b.pointer(form&0x0f, 0, 0)
	if c.augmented {
		b.bytes(b.uleb())
	}
	if b.failed || f.end <= f.begin {
		return nil, next
	}
	f.instructions = content[b.pos:]
	return f, next
}

// makeIndex reads all entries of the section and builds an index of its FDEs.
func (s *frameSection) makeIndex() {
	s.index = []indexEntry{}
	for offset := uint64(0); len(s.index) < maxFDEs; {
		f, next := s.fdeAt(offset)
		if f != nil {
			s.index = append(s.index, indexEntry{f.begin, f.end, offset})
		}
		if next <= offset {
			break
		}
		offset = next
	}
	slices.SortFunc(s.index, func(a, b indexEntry) int { return cmp.Compare(a.begin, b.begin) })
}

// find returns the FDE of the function that contains an address, or nil if there is none.
func (s *frameSection) find(address uint64) *fde {
	if s.index == nil {
		s.makeIndex()
	}
	i, _ := slices.BinarySearchFunc(s.index, address, func(e indexEntry, a uint64) int {
		if e.begin <= a {
			return -1
		}
		return 1
	})
	if i == 0 || address >= s.index[i-1].end {
		return nil
	}
	f, _ := s.fdeAt(s.index[i-1].offset)
	return f
}

// A frameTable is the sorted table in .eh_frame_hdr, which maps functions to their FDEs.
type frameTable struct {
	address uint64 // of .eh_frame_hdr
	first   uint64 // offset of the first pair
	count   int
	read    func(offset uint64, n int) []byte
	frames  *frameSection
}

// parseFrameTable parses .eh_frame_hdr. frames is the address of .eh_frame. t is nil if the section has no table
// that allows a binary search.
func parseFrameTable(address uint64, read func(offset uint64, n int) []byte) (t *frameTable, frames uint64) {
	b := &byteReader{data: read(0, 32)}
	if b.u8() != 1 {
		return nil, 0
	}
	frameForm, countForm, tableForm := b.u8(), b.u8(), b.u8()
	if frameForm == formOmit || countForm == formOmit || tableForm != formHdrTable {
		return nil, 0
	}
	frames = b.pointer(frameForm, address, address)
	count := b.pointer(countForm, address, address)
	if b.failed || count > maxFDEs {
		return nil, 0
	}
	return &frameTable{address: address, first: uint64(b.pos), count: int(count), read: read}, frames
}

// find returns the FDE of the function that contains an address, or nil if there is none.
func (t *frameTable) find(address uint64) *fde {
	low, high := 0, t.count // the last pair that begins at or below address is in [low-1, high)
	for low < high {
		middle := (low + high) / 2
		begin, _, ok := t.pair(middle)
		if !ok {
			return nil
		}
		if begin <= address {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == 0 {
		return nil
	}
	_, at, ok := t.pair(low - 1)
	if !ok || at < t.frames.address {
		return nil
	}
	f, _ := t.frames.fdeAt(at - t.frames.address)
	if f == nil || address < f.begin || address >= f.end {
		return nil
	}
	return f
}

// pair returns entry i of the frame table. start is the address at which a function begins, and at is the
// address of its FDE. ok is false if the table cannot be read.
func (t *frameTable) pair(i int) (start, at uint64, ok bool) {
	b := &byteReader{data: t.read(t.first+8*uint64(i), 8)}
	start, at = b.pointer(0x3b, t.address, t.address), b.pointer(0x3b, t.address, t.address)
	return start, at, !b.failed
}
