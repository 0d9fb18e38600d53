//go:build linux

package helper

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// oomKills reads how many processes of our control group the kernel has killed for want
// of memory (cgroups(7): memory.events of version 2, memory.oom_control of version 1);
// -1: it cannot be read.
func oomKills(root fs.FS) int {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		file := ""
		switch {
		case fields[1] == "":
			file = path.Join("sys/fs/cgroup", fields[2], "memory.events")
		case fields[1] == "memory":
			file = path.Join("sys/fs/cgroup/memory", fields[2], "memory.oom_control")
		}
		text, err := fs.ReadFile(root, file)
		if file == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// hint says what the node knows about the end of a rank, if there is evidence (REP-3).
func (s *session) hint(exit *job.Exit) string {
	switch unix.Signal(exit.Signal) {
	case unix.SIGKILL:
		if kills := oomKills(s.sys.Root); !exit.Asked && s.oomKills >= 0 && kills > s.oomKills {
			return "out of memory: the kernel has killed " + plural(kills-s.oomKills, "process", "processes") + " of its control group"
		}
	case unix.SIGBUS:
		return fullShm("/dev/shm")
	}
	return ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "a " + one
	}
	return fmt.Sprint(n, " ", many)
}

// fullShm says so if a file system for shared memory has no page left: whoever touches
// one that was promised gets SIGBUS.
func fullShm(dir string) string {
	var fs unix.Statfs_t
	const small = 1 << 20
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 || fs.Bavail*uint64(fs.Bsize) > small {
		return ""
	}
	return fmt.Sprintf("%s is full (%d MiB)", dir, fs.Blocks*uint64(fs.Bsize)>>20)
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
