package python

// lineAt returns the line number of an instruction, or 0 if the instruction has none. first is the first line
// of the code object. offset is the position of the instruction in the code, or -1 if the frame has not
// executed any instruction yet. CPython describes the formats in Objects/lnotab_notes.txt (3.9 and 3.10) and
// Objects/locations.md (3.11).
func lineAt(kind tableKind, table []byte, first, offset int) (line int) {
	switch kind {
	case lineDeltas:
		line = byDeltas(table, first, offset)
	case lineRanges:
		line = byRanges(table, first, 2*offset)
	case lineLocations:
		line = byLocations(table, first, offset)
	}
	if line < 0 || line >= 1<<31 {
		return 0
	}
	return line
}

// byDeltas finds the line of an instruction in a table of pairs. Each pair is an increment of the address, and an
// increment of the line from that address on.
func byDeltas(table []byte, line, offset int) int {
	for at := 0; len(table) >= 2; table = table[2:] {
		if at += int(table[0]); at > offset {
			break
		}
		line += int(int8(table[1]))
	}
	return line
}

// byRanges finds the line of an instruction in a table of pairs. Each pair is the size of a range of addresses, and
// an increment of the line for that range. The increment -128 means that the range has no line.
func byRanges(table []byte, line, offset int) int {
	if offset < 0 {
		return line
	}
	for end := 0; len(table) >= 2; table = table[2:] {
		delta := int(int8(table[1]))
		if delta != -128 {
			line += delta
		}
		if end += int(table[0]); offset < end {
			if delta == -128 {
				return 0
			}
			return line
		}
	}
	return 0
}

// byLocations finds the line of an instruction in a table of entries. The highest bit is set in the first byte of each
// entry, and in no other byte.
func byLocations(table []byte, line, offset int) int {
	if offset < 0 {
		return line
	}
	for end := 0; len(table) > 0; {
		code, size := table[0]>>3&15, 2*(int(table[0]&7)+1)
		rest := table[1:]
		switch code {
		case 10, 11, 12:
			line += int(code) - 10
		case 13, 14:
			line += signed(rest)
		}
		if end += size; offset < end {
			if code == 15 {
				return 0
			}
			return line
		}
		for len(rest) > 0 && rest[0]&0x80 == 0 {
			rest = rest[1:]
		}
		table = rest
	}
	return 0
}

// signed decodes a number with 6 bits in each byte, lowest bits first. The lowest bit of the number is its sign.
func signed(b []byte) int {
	var n uint64
	for i := 0; i < len(b) && i < 6; i++ {
		n |= uint64(b[i]&0x3f) << (6 * i)
		if b[i]&0x40 == 0 {
			break
		}
	}
	if n&1 != 0 {
		return -int(n >> 1)
	}
	return int(n >> 1)
}
