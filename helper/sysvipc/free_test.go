//go:build linux

package sysvipc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "actor" {
		actAsRank(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "sets" {
		actOnSets(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// actAsRank makes a segment and opens a file, reports that, and waits for its end.
func actAsRank(files []string) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	fmt.Println(id, err)
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			err = f.Truncate(4096)
		}
		if err == nil { // mapped, and not open any more
			_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			f.Close()
		}
		fmt.Println(err)
	}
	bufio.NewReader(os.Stdin).ReadByte()
}

// A rank is a process of a job, as its helper sees it.
type rank struct {
	Process
	cmd     *exec.Cmd
	segment int
}

// startRank starts a rank that makes a segment, and files.
func startRank(t *testing.T, number int, files ...string) *rank {
	cmd := exec.Command(os.Args[0], append([]string{"actor"}, files...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rank{cmd: cmd}
	t.Cleanup(func() {
		stdin.Close()
		if cmd.ProcessState == nil {
			cmd.Wait()
		}
		unix.SysvShmCtl(r.segment, unix.IPC_RMID, nil)
		for _, name := range files {
			os.Remove(name)
		}
	})
	lines := bufio.NewScanner(stdout)
	for i := range 1 + len(files) {
		lines.Scan()
		id, outcome, _ := strings.Cut(lines.Text(), " ")
		if i > 0 {
			outcome = lines.Text()
		} else if r.segment, err = strconv.Atoi(id); err != nil {
			t.Fatal(err)
		}
		if outcome != "<nil>" {
			t.Skipf("shared memory cannot be made here: %s", outcome)
		}
	}
	look, _ := proc.ReadInfo(cmd.Process.Pid)
	r.Process = Process{PID: cmd.Process.Pid, Rank: number, Started: look.StartTime.Time(), Leader: true}
	return r
}

// kill kills a rank, and reports its end to a Tracker.
func (r *rank) kill(b *Tracker) {
	r.cmd.Process.Kill()
	r.cmd.Wait()
	b.NoteEnded(r.Process, time.Now())
	b.NoteRankEnd(r.Rank, false)
}

// exists reports whether a segment exists.
func exists(segment int) bool {
	var now unix.SysvShmDesc
	_, err := unix.SysvShmCtl(segment, unix.IPC_STAT, &now)
	return err == nil
}

// shmFile returns a name in /dev/shm that no other test has.
func shmFile(t *testing.T, name string) string {
	if listFiles(ShmDir, time.Now().Add(time.Minute)) == nil {
		if _, err := os.Stat(ShmDir); err != nil {
			t.Skip(err)
		}
	}
	path := filepath.Join(ShmDir, fmt.Sprintf("remshell-test%x-%s", time.Now().UnixNano(), name)) // without the number of a process
	t.Cleanup(func() { os.Remove(path) })
	return path
}

// scan makes a Tracker scan some ranks.
func scan(b *Tracker, ranks ...*rank) {
	b.Scan(func() (all []Process) {
		for _, r := range ranks {
			all = append(all, r.Process)
		}
		return all
	})
}

// Leftovers of killed ranks are removed and reported. Objects that other processes hold stay, and so does a file
// of unknown origin that was created meanwhile.
func TestFree(t *testing.T) {
	used, mapped, opened, outside := shmFile(t, "used"), shmFile(t, "mapped"), shmFile(t, "opened"), shmFile(t, "outside")
	b := NewTracker(false)
	b.scanTimeout, b.freeTimeout = time.Hour, time.Hour // however slow this machine is
	one := startRank(t, 1, used, mapped, opened)
	two := startRank(t, 2, used)
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	scan(b, one, two)
	stranger := startRank(t, 7, mapped) // of another job
	f, err := os.Open(opened)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one.kill(b)
	two.kill(b)
	attached, err := unix.SysvShmAttach(two.segment, 0, unix.SHM_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.SysvShmDetach(attached)
	var told []string
	for _, r := range b.Free().Freed {
		told = append(told, fmt.Sprint(r.Kind, " ", r.ID, " ", r.Bytes, " ", r.Rank, r.Err))
	}
	want := []string{fmt.Sprint(job.LeftoverSysVShm, " ", one.segment, " 4096 1"), fmt.Sprint(job.LeftoverPosixShm, " ", used, " 4096 1")}
	if !slices.Equal(told, want) {
		t.Errorf("told  %q\nwant %q", told, want)
	}
	for path, there := range map[string]bool{used: false, mapped: true, opened: true, outside: true} {
		if _, err := os.Lstat(path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	if exists(one.segment) || !exists(two.segment) || !exists(stranger.segment) {
		t.Errorf("segments: of rank 1 %v, attached %v, of another job %v", exists(one.segment), exists(two.segment), exists(stranger.segment))
	}
}

// A file whose name belongs to another file or a link by now is not removed.
func TestFreeChecksFile(t *testing.T) {
	kept := shmFile(t, "kept")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(kept, path) },
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"none": func(string) error { return nil },
	} {
		path := shmFile(t, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		f, ok := statFile(unix.AT_FDCWD, path)
		if f.name = filepath.Base(path); !ok {
			t.Fatal(path)
		}
		hold, err := os.Open(path) // so that its inode number is not reused
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		if freed, err := f.free(ShmDir); freed || err != nil {
			t.Errorf("%s: freed %v, %v", name, freed, err)
		}
		if _, err := os.Lstat(path); (err == nil) != (name != "none") {
			t.Errorf("%s: %v", name, err)
		}
		hold.Close()
	}
	if text, err := os.ReadFile(kept); string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
}

// A segment whose number belongs to another segment by now is not removed.
func TestFreeChecksSegment(t *testing.T) {
	r := startRank(t, 0)
	for _, s := range parseSegments(readTable("shm")) {
		if s.id != r.segment {
			continue
		}
		for name, change := range map[string]func(*sysvSegment){
			"another time": func(s *sysvSegment) { s.changed-- }, "another key": func(s *sysvSegment) { s.key++ },
			"another maker": func(s *sysvSegment) { s.cpid++ }, "another user": func(s *sysvSegment) { s.cuid++ },
		} {
			other := s
			change(&other)
			if freed, err := other.free(); freed || err != nil || !exists(r.segment) {
				t.Errorf("%s: freed %v, %v", name, freed, err)
			}
		}
		if freed, err := s.free(); !freed || err != nil || exists(r.segment) {
			t.Errorf("freed %v, %v", freed, err)
		}
		if freed, err := s.free(); freed || err != nil {
			t.Errorf("what is gone: freed %v, %v", freed, err)
		}
		return
	}
	t.Error("the segment is not in the kernel's list")
}

// If a scan takes too long, no files are removed, because it is not known who holds them.
func TestScanTakesTooLong(t *testing.T) {
	path := shmFile(t, "late")
	b := NewTracker(false)
	b.scanTimeout, b.freeTimeout = -time.Second, time.Hour
	r := startRank(t, 1, path)
	scan(b, r)
	r.kill(b)
	for _, freed := range b.Free().Freed {
		if freed.Kind == job.LeftoverPosixShm {
			t.Errorf("freed: %+v", freed)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}
