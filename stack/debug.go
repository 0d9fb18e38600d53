package stack

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// debugSections returns the DWARF sections that are needed to find lines, by name without the prefix ".debug_". It
// reads the sections itself, because package elf would also apply relocations, and would decompress sections of any
// size.
func (m *Image) debugSections() (sections map[string][]byte, err error) {
	sections = make(map[string][]byte)
	total := uint64(0)
	for _, name := range []string{"info", "abbrev", "line", "ranges", "str", "addr", "line_str", "str_offsets", "rnglists"} {
		s := m.elf.Section(".debug_" + name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if total += s.Size; s.Size > maxDWARF || total > maxDWARF {
			return nil, errTooLarge
		}
		if sections[name], err = s.Data(); err != nil {
			return nil, err
		}
	}
	return sections, nil
}

// plausibleUnits reports whether package dwarf needs little memory for the compile units of a file. There must be at
// most maxUnits units. The tables of abbreviations must not overlap: package dwarf decodes each of them, so overlapping
// tables would need more memory than the section has bytes.
func plausibleUnits(info, abbrev []byte) bool {
	var tables []uint64
	b := &byteReader{data: info}
	for n := 0; b.left() > 0; n++ {
		length, offsetSize := b.unitLength()
		unit := &byteReader{data: b.bytes(length)}
		if b.failed || n == maxUnits {
			return false
		}
		if length == 0 {
			continue
		}
		if unit.u16() >= 5 {
			unit.u16() // kind of unit, size of an address
		}
		if offsetSize == 8 {
			tables = append(tables, unit.u64())
		} else {
			tables = append(tables, uint64(unit.u32()))
		}
	}
	slices.Sort(tables)
	left := len(abbrev)
	for _, at := range slices.Compact(tables) {
		if at > uint64(len(abbrev)) {
			return false
		}
		size := abbreviationsSize(abbrev[at:], left)
		if size < 0 {
			return false
		}
		left -= size
	}
	return true
}

// abbreviationsSize returns the size of a table of abbreviations (DWARF 5, 7.5.3). It returns -1 if the table is longer
// than limit.
func abbreviationsSize(table []byte, limit int) int {
	b := &byteReader{data: table[:min(len(table), limit)]}
	for !b.failed {
		if b.uleb() == 0 {
			break
		}
		b.uleb() // tag
		b.u8()
		for !b.failed {
			attribute, form := b.uleb(), b.uleb()
			if attribute == 0 && form == 0 {
				break
			}
			if form == 0x21 { // DW_FORM_implicit_const
				b.sleb()
			}
		}
	}
	if b.failed {
		return -1
	}
	return b.pos
}

// unitLength reads the length of a compile unit. offsetSize is the size of the unit's offsets, 4 or 8 bytes.
func (b *byteReader) unitLength() (length uint64, offsetSize int) {
	if length = uint64(b.u32()); length == 0xffffffff {
		return b.u64(), 8
	}
	return length, 4
}

// plausibleLines reports whether the line number program at an offset names no more directories and files than it has
// bytes. Package dwarf does not check this, and allocates memory for any number in the header of the program (DWARF 5,
// 6.2.4).
func plausibleLines(section []byte, at int64) bool {
	if at < 0 || at > int64(len(section)) {
		return false
	}
	b := &byteReader{data: section[at:]}
	_, offsetSize := b.unitLength()
	version := b.u16()
	if version < 5 {
		return !b.failed // names, up to an empty one
	}
	b.u16() // sizes of an address and of a segment selector
	b.bytes(uint64(offsetSize) + 5)
	b.bytes(uint64(max(b.u8(), 1)) - 1) // the lengths of standard opcodes
	for range 2 {
		forms := make([]uint64, b.u8())
		for i := range forms {
			b.uleb()
			forms[i] = b.uleb()
		}
		count := b.uleb()
		if b.failed || count > uint64(b.left()) || count > 0 && len(forms) == 0 {
			return false
		}
		for range count {
			for _, form := range forms {
				b.skipForm(form, offsetSize)
			}
		}
	}
	return !b.failed
}

// skipForm skips a value of the given form (DWARF 5, 7.5.6). It supports the forms that package dwarf supports in a
// line number program.
func (b *byteReader) skipForm(form uint64, offsetSize int) {
	switch form {
	case 0x08: // string
		b.text()
	case 0x0e, 0x1f: // strp, line_strp
		b.bytes(uint64(offsetSize))
	case 0x0b: // data1
		b.u8()
	case 0x05:
		b.u16()
	case 0x06:
		b.u32()
	case 0x07:
		b.u64()
	case 0x1e: // data16
		b.bytes(16)
	case 0x09: // block
		b.bytes(b.uleb())
	case 0x0f: // udata
		b.uleb()
	default:
		b.failed = true
	}
}

// isCompressed reports whether a section header has the flag SHF_COMPRESSED.
func isCompressed(header []byte) bool {
	return binary.LittleEndian.Uint64(header[8:])&uint64(elf.SHF_COMPRESSED) != 0
}
