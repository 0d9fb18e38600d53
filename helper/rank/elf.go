//go:build linux

package rank

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
)

// otherArch returns the architecture of a program if the program was built for another kind of machine. It
// returns "" if the program can run on this machine or its architecture is unknown.
func otherArch(program string) string {
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
