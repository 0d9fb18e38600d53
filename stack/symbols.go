package stack

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ianlancetaylor/demangle"
)

// A symbolTable is a symbol table together with its string table. It is read as a stream, so that it need not be in
// memory.
type symbolTable struct {
	entries func() io.Reader
	names   io.ReaderAt
	size    uint64
}

// symbolSize is the size in bytes of one symbol, sizeof(Elf64_Sym). maxUnsized is the maximum distance from a
// symbol without a size to an address that counts as part of the symbol. Symbols of hand-written assembly often
// have no size.
const (
	symbolSize = 24
	maxUnsized = 64 << 10
)

// findSymbols finds the symbol tables of a file.
func findSymbols(f *elf.File) (all []*symbolTable) {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || s.Size > maxSymbolBytes || s.Flags&elf.SHF_COMPRESSED != 0 ||
			int(s.Link) >= len(f.Sections) {
			continue
		}
		names := f.Sections[s.Link]
		if names.Type != elf.SHT_STRTAB || names.Flags&elf.SHF_COMPRESSED != 0 {
			continue
		}
		all = append(all, &symbolTable{entries: func() io.Reader { return io.NewSectionReader(s.ReaderAt, 0, int64(s.Size)) }, names: names.ReaderAt, size: s.Size})
	}
	return all
}

// A Symbol is the position of a function or variable in the address space of its ELF file.
type Symbol struct{ Address, Size uint64 }

// Lookup returns the symbols with the given names. Names that the file does not contain are missing from the result.
func (m *Image) Lookup(names ...string) map[string]Symbol {
	var err error
	found := make(map[string]Symbol)
	defer recoverAs(&err)
	tables := findSymbols(m.elf)
	slices.SortStableFunc(tables, func(a, b *symbolTable) int { return cmp.Compare(a.size, b.size) }) // .dynsym is the small one
	for _, t := range tables {
		r := bufio.NewReaderSize(t.entries(), 64<<10)
		var e [symbolSize]byte
		for n := 0; n < maxLookups && len(found) < len(names); n++ {
			if _, err := io.ReadFull(r, e[:]); err != nil {
				break
			}
			kind, value := elf.ST_TYPE(e[4]), binary.LittleEndian.Uint64(e[8:])
			if binary.LittleEndian.Uint16(e[6:]) == uint16(elf.SHN_UNDEF) || kind != elf.STT_FUNC && kind != elf.STT_OBJECT || value == 0 {
				continue
			}
			if name := readName(t.names, binary.LittleEndian.Uint32(e[:])); slices.Contains(names, name) {
				found[name] = Symbol{value, binary.LittleEndian.Uint64(e[16:])}
			}
		}
	}
	return found
}

// A candidate is the best symbol that has been found so far for an address.
type candidate struct {
	name   string
	value  uint64
	sized  bool   // the address is within the size of the symbol
	latest uint64 // the last symbol that begins at or below the address, also if it ends before
}

// names returns the names of the functions that contain the addresses, as spelled in the symbol tables. An address
// without a function is missing from the result.
func (m *Image) names(addresses []uint64, deadline time.Time) map[uint64]string {
	var err error
	best := make([]candidate, len(addresses))
	addresses = slices.Clone(addresses)
	slices.Sort(addresses)
	func() {
		defer recoverAs(&err)
		m.once.Do(func() {
			m.symbols = findSymbols(m.elf)
			if mini := m.miniDebug(); mini != nil {
				m.symbols = append(m.symbols, findSymbols(mini)...)
			}
		})
		for _, t := range m.symbols {
			t.improve(addresses, best, deadline)
		}
	}()
	found := make(map[uint64]string)
	for i, c := range best {
		if c.name != "" && (c.sized || c.value == c.latest) {
			found[addresses[i]] = c.name
		}
	}
	return found
}

// improve replaces each candidate in best for which the table contains a better symbol. addresses must be sorted.
// improve stops at the deadline.
func (t *symbolTable) improve(addresses []uint64, best []candidate, deadline time.Time) {
	r := bufio.NewReaderSize(t.entries(), 64<<10)
	var e [symbolSize]byte
	for n := 0; ; n++ {
		if _, err := io.ReadFull(r, e[:]); err != nil || n%65536 == 65535 && time.Now().After(deadline) {
			return
		}
		kind, section := elf.ST_TYPE(e[4]), elf.SectionIndex(binary.LittleEndian.Uint16(e[6:]))
		value, size := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if section == elf.SHN_UNDEF || kind != elf.STT_FUNC && kind != elf.STT_NOTYPE && kind != elf.STT_GNU_IFUNC || value == 0 {
			continue
		}
		end := value + max(size, maxUnsized)
		if end < value {
			continue
		}
		i, _ := slices.BinarySearch(addresses, value)
		for ; i < len(addresses) && addresses[i] < end; i++ {
			best[i].latest = max(best[i].latest, value)
			if size == 0 || addresses[i]-value < size {
				t.consider(&best[i], binary.LittleEndian.Uint32(e[:]), value, size > 0)
			}
		}
	}
}

// consider replaces c with another symbol if that symbol is better. A symbol with a size is better than one without. If
// this does not decide, the symbol at the higher address is better. If the addresses are equal, the one whose name nicer
// prefers is better.
func (t *symbolTable) consider(c *candidate, nameAt uint32, value uint64, sized bool) {
	switch {
	case c.name == "":
	case sized != c.sized:
		if !sized {
			return
		}
	case value != c.value:
		if value < c.value {
			return
		}
	}
	name := readName(t.names, nameAt)
	if name == "" || strings.HasPrefix(name, "$") { // "$x": a mapping symbol of arm64
		return
	}
	if c.name != "" && c.sized == sized && c.value == value && !nicer(name, c.name) {
		return
	}
	*c = candidate{name, value, sized, c.latest}
}

// nicer reports whether name is better than other as the name of a function. It prefers MPI_Send to PMPI_Send, and
// write to __write and __GI___libc_write.
func nicer(name, other string) bool {
	of := func(s string) int {
		switch {
		case strings.HasPrefix(s, "MPI_"):
			return 0
		case strings.HasPrefix(s, "_"):
			return 2 + len(s) - len(strings.TrimLeft(s, "_"))
		}
		return 1
	}
	return cmp.Or(cmp.Compare(of(name), of(other)), cmp.Compare(len(name), len(other)), cmp.Compare(name, other)) < 0
}

// readName reads the name at an offset of a string table. It returns "" if the name is longer than maxNameBytes.
func readName(names io.ReaderAt, at uint32) string {
	var buf [maxNameBytes]byte
	n, _ := names.ReadAt(buf[:], int64(at))
	end := bytes.IndexByte(buf[:max(n, 0)], 0)
	if end < 0 {
		return ""
	}
	return string(buf[:end])
}

// Demangle returns the name of a C++ or Rust function as spelled in the source, without parameters. It returns other
// names unchanged.
func Demangle(name string) (plain string) {
	var err error
	defer func() {
		if err != nil || plain == "" {
			plain = name
		}
	}()
	defer recoverAs(&err)
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		return name
	}
	base, _, _ := strings.Cut(name, ".") // the compiler adds suffixes: .constprop.0
	plain, err = demangle.ToString(base, demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(10))
	return plain
}
