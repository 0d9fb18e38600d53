package stacktest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/stack"
)

// snapshots loads the recorded threads. Those of amd64 are from TestRecordSnapshots of package trace, the other one is described in testdata/arm64.c.
func snapshots(t testing.TB) map[string]*Snapshot {
	t.Helper()
	names, err := filepath.Glob("testdata/*.snapshot")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d snapshots, %v", len(names), err)
	}
	all := make(map[string]*Snapshot)
	for _, name := range names {
		s, err := Load(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".snapshot")] = s
	}
	return all
}

// The unwinder returns the frames of recorded threads, on any machine.
func TestSnapshots(t *testing.T) {
	ends := map[string]string{"c-signal": "innermost planted.c:6", "c-sleep": "main planted.c:16", "python3.11": "Python gen planted.py:16", "arm64": "leaf arm64.c:"}
	for name, s := range snapshots(t) {
		if got := s.Frames(); !slices.Equal(got, s.Want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, s.Want)
		}
		if want, known := ends[name]; !known || !strings.Contains(strings.Join(s.Want, "\n"), want) {
			t.Errorf("%s has no %s: %q", name, want, s.Want)
		}
	}
}

// Whatever a byte of the memory, the registers or a file is changed to, the frames stay within the bounds.
func FuzzSnapshots(f *testing.F) {
	all := snapshots(f)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := range names {
		f.Add(byte(i), uint32(7), byte(3), byte(0))
	}
	f.Fuzz(func(t *testing.T, which byte, at uint32, where, with byte) {
		s := *all[names[int(which)%len(names)]]
		change := func(pieces []Piece) []Piece {
			pieces = slices.Clone(pieces)
			for i, left := 0, int(at); i < len(pieces); i++ {
				if left < len(pieces[i].Bytes) {
					pieces[i].Bytes = slices.Clone(pieces[i].Bytes)
					pieces[i].Bytes[left] = with
					break
				}
				left -= len(pieces[i].Bytes)
			}
			return pieces
		}
		switch {
		case where%4 == 0:
			s.Registers = slices.Clone(s.Registers)
			s.Registers[int(at)%len(s.Registers)] ^= uint64(with) << (where % 64)
		case where%4 == 1 && len(s.Files) > 0:
			s.Files = slices.Clone(s.Files)
			i := int(where/4) % len(s.Files)
			s.Files[i] = File{change(s.Files[i].Pieces)}
		default:
			s.Memory = change(s.Memory)
		}
		if frames := s.Frames(); len(frames) > 66*stack.MaxFrames {
			t.Errorf("%d frames", len(frames))
		}
	})
}
