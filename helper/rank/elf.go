//go:build linux

package rank

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
)

// foreign names the machine that a program is for, if it is not ours; empty: who knows.
func foreign(program string) string {
	f, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	var head [20]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:4]) != elf.ELFMAG {
		return ""
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	name := strings.ToLower(strings.TrimPrefix(elf.Machine(order.Uint16(head[18:])).String(), "EM_"))
	switch name {
	case "aarch64":
		name = "arm64"
	case "x86_64":
		name = "amd64"
	}
	if name == runtime.GOARCH {
		return ""
	}
	return name
}

// BuiltFor names the MPI library that a program is linked with, as people call it; empty
// if it is linked with none, or one whose programs find us by themselves: the family of
// MPICH does, as soon as they call MPI_Init.
func BuiltFor(program string) string {
	f, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	for _, name := range libraries {
		for _, family := range []struct{ prefix, name string }{
			{"libmpi.so.40", "Open MPI"}, {"libmpi.so.20", "Open MPI"}, {"libmpi.so.1", "Open MPI"},
			{"libmpi_mpifh.so", "Open MPI"}, {"libmpi_usempi", "Open MPI"}, {"libmpi_cxx.so", "Open MPI"},
			{"libopen-rte.so", "Open MPI"}, {"libmpt.so", "HPE MPT"},
		} {
			rest, ok := strings.CutPrefix(name, family.prefix)
			if ok && (rest == "" || !isDigit(rest[0])) { // libmpi.so.12 is MPICH's
				return family.name
			}
		}
	}
	return ""
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
