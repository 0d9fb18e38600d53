//go:build linux

package helper

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
)

// hint says what the node knows about the end of a rank, if there is evidence (REP-3).
func (s *session) hint(exit *job.Exit) string {
	switch unix.Signal(exit.Signal) {
	case unix.SIGKILL:
		if kills := probe.OOMKills(s.sys.Root); !exit.Asked && s.oomKills >= 0 && kills > s.oomKills {
			return "out of memory: the kernel has killed " + plural(kills-s.oomKills, "process", "processes") + " of its control group"
		}
	case unix.SIGBUS:
		return probe.FullShm("/dev/shm")
	}
	return ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "a " + one
	}
	return fmt.Sprint(n, " ", many)
}

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

// builtFor names the MPI library that a program is linked with, as people call it; empty
// if it is linked with none, or one whose programs find us by themselves: the family of
// MPICH does, as soon as they call MPI_Init.
func builtFor(program string) string {
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
