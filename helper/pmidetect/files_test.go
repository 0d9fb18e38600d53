package pmidetect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"path"
	"strings"
)

// An elfFile is the description of an ELF file that a test makes.
type elfFile struct {
	Needed         []string
	RPath, RunPath string
	Static         bool   // no interpreter and no dynamic table
	Text           string // contents of a read-only segment
	Data           string // contents of a writable segment
}

// bytes returns the file: headers, Text, names and dynamic table in a read-only segment, and Data
// after them.
func (e elfFile) bytes() []byte {
	const base, heads = 0x400000, 64 + 5*56
	names := []byte{0}
	name := func(s string) uint64 {
		at := len(names)
		names = append(append(names, s...), 0)
		return uint64(at)
	}
	var table []elf.Dyn64
	entry := func(tag elf.DynTag, value uint64) { table = append(table, elf.Dyn64{Tag: int64(tag), Val: value}) }
	for _, n := range e.Needed {
		entry(elf.DT_NEEDED, name(n))
	}
	if e.RPath != "" {
		entry(elf.DT_RPATH, name(e.RPath))
	}
	if e.RunPath != "" {
		entry(elf.DT_RUNPATH, name(e.RunPath))
	}
	at := uint64(heads + len(e.Text))
	entry(elf.DT_STRTAB, base+at)
	entry(elf.DT_NULL, 0)
	entry(elf.DT_NEEDED, 1<<40) // behind DT_NULL: ignored
	dynamic := at + uint64(len(names))
	end := dynamic + uint64(len(table)*16)
	headers := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Vaddr: base, Filesz: end, Memsz: end},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: end, Vaddr: base + 0x100000, Filesz: uint64(len(e.Data))},
	}
	if !e.Static {
		headers = append(headers, elf.Prog64{Type: uint32(elf.PT_INTERP)},
			elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: dynamic, Vaddr: base + dynamic, Filesz: uint64(len(table) * 16)})
	}
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Phoff: 64, Phentsize: 56, Phnum: uint16(len(headers))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	binary.Write(&b, binary.LittleEndian, headers)
	b.Write(make([]byte, heads-b.Len()))
	b.WriteString(e.Text)
	b.Write(names)
	binary.Write(&b, binary.LittleEndian, table)
	b.WriteString(e.Data)
	return b.Bytes()
}

// A folder is a set of files in memory: their contents, or "-> PATH" for a link. It records which files are opened.
type folder struct {
	files  map[string]string
	opened []string
}

func (d *folder) Open(name string) (File, error) {
	d.opened = append(d.opened, name)
	text, ok := d.files[d.Resolve(name)]
	switch {
	case !ok:
		return nil, fs.ErrNotExist
	case text == "unreadable":
		return nil, fs.ErrPermission
	}
	return memory{strings.NewReader(text)}, nil
}

func (d *folder) Resolve(name string) string {
	for {
		target, link := strings.CutPrefix(d.files[name], "-> ")
		if !link {
			return path.Clean(name)
		}
		name = path.Join(path.Dir(name), target)
	}
}

// memory is a file in memory.
type memory struct{ *strings.Reader }

func (memory) Close() error { return nil }

func (m memory) ID() (ID, error) { return ID{Size: m.Size()}, nil }
