package stack

import "encoding/binary"

// A byteReader reads little-endian numbers from a piece of an ELF file. If a read would go past the end, the
// byteReader sets failed, and all further results are zero.
type byteReader struct {
	data   []byte
	pos    int
	failed bool
}

func (b *byteReader) left() int { return len(b.data) - b.pos }

// bytes returns the next n bytes, or nil if fewer than n are left.
func (b *byteReader) bytes(n uint64) []byte {
	if b.failed || n > uint64(b.left()) {
		b.failed = true
		return nil
	}
	b.pos += int(n)
	return b.data[b.pos-int(n) : b.pos : b.pos]
}

func (b *byteReader) u8() byte {
	if d := b.bytes(1); d != nil {
		return d[0]
	}
	return 0
}

func (b *byteReader) u16() uint16 {
	if d := b.bytes(2); d != nil {
		return binary.LittleEndian.Uint16(d)
	}
	return 0
}

func (b *byteReader) u32() uint32 {
	if d := b.bytes(4); d != nil {
		return binary.LittleEndian.Uint32(d)
	}
	return 0
}

func (b *byteReader) u64() uint64 {
	if d := b.bytes(8); d != nil {
		return binary.LittleEndian.Uint64(d)
	}
	return 0
}

// uleb reads an unsigned LEB128 number (DWARF 5, 7.6). It drops bits beyond the 64th.
func (b *byteReader) uleb() (n uint64) {
	for shift := uint(0); ; shift += 7 {
		c := b.u8()
		if shift < 64 {
			n |= uint64(c&0x7f) << shift
		}
		if c&0x80 == 0 {
			return n
		}
	}
}

// sleb reads a signed LEB128 number. It drops bits beyond the 64th.
func (b *byteReader) sleb() (n int64) {
	for shift := uint(0); ; {
		c := b.u8()
		if shift < 64 {
			n |= int64(c&0x7f) << shift
		}
		if shift += 7; c&0x80 == 0 {
			if c&0x40 != 0 && shift < 64 {
				n |= -1 << shift
			}
			return n
		}
	}
}

// text reads a string that ends with a zero byte, and returns it without that byte.
func (b *byteReader) text() string {
	from := b.pos
	for b.u8() != 0 {
	}
	if b.failed {
		return ""
	}
	return string(b.data[from : b.pos-1])
}
