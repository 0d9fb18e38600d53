package trace

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A rank whose file has mangled section headers and debug information is read within a bounded time and memory, and runs on.
func TestHostilePrograms(t *testing.T) {
	intact, err := os.ReadFile(program(t, inC, "-g", "-O2"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "intact")
	if err := os.WriteFile(path, intact, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	headers := binary.LittleEndian.Uint64(intact[40:]) // e_shoff
	variants := map[string]func([]byte){
		"no section names": func(b []byte) { binary.LittleEndian.PutUint16(b[62:], 0xffff) },
		"65,535 sections":  func(b []byte) { binary.LittleEndian.PutUint16(b[60:], 0xffff) },
		"sections counted elsewhere": func(b []byte) {
			binary.LittleEndian.PutUint16(b[60:], 0)
			binary.LittleEndian.PutUint64(b[headers+32:], 1<<40)
		},
		"headers outside of the file": func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 1<<62) },
		"headers that overlap":        func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 64) },
	}
	for i, s := range f.Sections {
		at := headers + uint64(64*i)
		if i == 0 {
			continue
		}
		for name, field := range map[string]uint64{"offset": 24, "size": 32} {
			for _, value := range []uint64{1 << 20, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
				variants[fmt.Sprintf("%s of %s is %d", name, s.Name, value)] = func(b []byte) { binary.LittleEndian.PutUint64(b[at+field:], value) }
			}
		}
		variants["names of "+s.Name+" in itself"] = func(b []byte) { binary.LittleEndian.PutUint32(b[at+40:], uint32(i)) }
		if s.Flags&elf.SHF_ALLOC != 0 && s.Name != ".eh_frame" && s.Name != ".eh_frame_hdr" || s.Type == elf.SHT_NOBITS {
			continue // the program needs it
		}
		variants["compressed "+s.Name] = func(b []byte) {
			binary.LittleEndian.PutUint64(b[at+8:], uint64(elf.SHF_COMPRESSED))
			copy(b[s.Offset:], "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00")
		}
		variants["all bits of "+s.Name] = func(b []byte) {
			for j := range s.FileSize {
				b[s.Offset+j] = 0xff
			}
		}
		for seed := range uint64(3) {
			variants[fmt.Sprintf("%s, seed %d", s.Name, seed)] = func(b []byte) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				for range 1 + r.IntN(20) {
					b[s.Offset+r.Uint64N(s.FileSize)] = byte(r.Uint32())
				}
			}
		}
	}
	t.Logf("%d variants", len(variants))
	var before, after runtime.MemStats
	for name, change := range variants {
		hostile := append([]byte(nil), intact...)
		change(hostile)
		path := filepath.Join(dir, "planted")
		os.Remove(path)
		if err := os.WriteFile(path, hostile, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			pid := start(t, path, "spin")
			runtime.ReadMemStats(&before)
			began := time.Now()
			threads, p := namesOf(t, pid)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if len(threads) != 1 || !p.Threads[0].Read || len(threads[0]) == 0 {
				t.Errorf("it is not read: %q", threads)
			}
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<20 || took > 20*time.Second {
				t.Errorf("%d MiB, %v", bytes>>20, took)
			}
			if state := stateOf(pid); state != "R" {
				t.Errorf("state %s", state)
			}
		})
	}
}
