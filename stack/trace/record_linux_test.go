package trace

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/stack"
	"remshell/stack/stacktest"
)

var recordInto = flag.String("record", "", "record snapshots for package stacktest into this folder")

// TestRecordSnapshots records the snapshots of amd64: with -record DIR into DIR, otherwise into a temporary directory.
// Look at what has changed before you commit them.
func TestRecordSnapshots(t *testing.T) {
	into := *recordInto
	if into == "" {
		into = t.TempDir()
	}
	c := program(t, inC, "-O2", "-g", "-fomit-frame-pointer")
	script := filepath.Join(t.TempDir(), "planted.py")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(inPython, `\u00e4`, "ä")), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"c-signal": {c, "signal"}, "c-sleep": {c, "sleep"}, "python3.11": {"/usr/bin/python3.11", script, "sleep"}} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		pid := start(t, args[0], args[1:]...)
		for last := ""; ; { // until it has come to its end
			s := record(t, pid)
			if now := strings.Join(s.Want, " "); now != last {
				last = now
				exec.Command("sleep", "1.5").Run()
				continue
			}
			if err := s.Save(filepath.Join(into, name+".snapshot")); err != nil {
				t.Fatal(err)
			}
			if t.Logf("%s: %q", name, s.Want); len(s.Want) == 0 {
				t.Errorf("%s: no call was recorded", name)
			}
			break
		}
	}
}

// record records the main thread of a process.
func record(t *testing.T, pid int) (s stacktest.Snapshot) {
	t.Helper()
	runtime.LockOSThread() // and never unlock: the thread ends with the test, and traces nothing any more
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var mappings []stack.Mapping
	var files []*stacktest.Recorder
	for line := range strings.Lines(string(text)) {
		m, permissions, _, ok := parseMapping(line)
		if !ok || !strings.Contains(permissions, "x") {
			continue
		}
		recorded := stacktest.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: "/" + filepath.Base(m.Path), File: -1}
		if f, err := os.Open(m.Path); err == nil {
			t.Cleanup(func() { f.Close() })
			r := new(stacktest.Recorder)
			recorded.File, files = len(files), append(files, r)
			if m.Image, err = stack.OpenImage(r.ReaderAt(f)); err != nil {
				t.Fatal(err)
			}
		}
		m.Path = recorded.Path
		mappings, s.Mappings = append(mappings, m), append(s.Mappings, recorded)
	}
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatal(err)
	}
	defer unix.PtraceDetach(pid)
	unix.PtraceInterrupt(pid)
	for s.Registers, err = registersOf(pid); err != nil; s.Registers, err = registersOf(pid) {
		runtime.Gosched()
	}
	var memory stacktest.Recorder
	s.Arch = Host
	s.Want = stacktest.Frames(Host, s.Registers, memory.Memory(MemoryOf(pid)), mappings)
	s.Memory = memory.Pieces()
	for _, r := range files {
		s.Files = append(s.Files, stacktest.File{Pieces: r.Pieces()})
	}
	return s
}
