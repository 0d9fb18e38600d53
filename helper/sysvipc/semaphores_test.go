//go:build linux

package sysvipc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

// Which semaphore sets are freed: each row breaks one of the conditions (rule PD-22). Ranks 0 and 1 ran from 1 s, with PIDs
// 4000 and 4001, to 9 s and 10 s. Rank 1 failed.
func TestSets(t *testing.T) {
	const us = 77
	own := semSet{key: 1, id: 5, semaphores: 2, cuid: us, operated: at(6).Unix(), changed: at(5).Unix()}
	with := func(change func(*semSet)) semSet {
		s := own
		change(&s)
		return s
	}
	for _, test := range []struct {
		name   string
		s      semSet
		pids   []int
		always bool
		want   string // its rank; or why it stays
	}{
		{"used last by a rank that failed", own, []int{4001, 4001}, false, "1"},
		{"a semaphore that nobody has used", own, []int{4001, 0}, false, "used by others"},
		{"no semaphore that anybody has used", own, []int{0, 0}, false, "used by others"},
		{"without semaphores", own, nil, false, "used by others"},
		{"a semaphore used last by a process of no job", own, []int{4001, 4003}, false, "used by others"},
		{"used by a rank that ended well, too", own, []int{4001, 4000}, false, "used by others"},
		{"the same with always", own, []int{4001, 4000}, true, "1"},
		{"with a child of unknown rank", own, []int{4001, 4002}, false, "used by others"},
		{"the same with always", own, []int{4002, 4001}, true, "-1"},
		{"made by another user", with(func(s *semSet) { s.cuid++ }), []int{4001}, false, "not made meanwhile"},
		{"older than the job", with(func(s *semSet) { s.changed = at(-1).Unix() }), []int{4001}, false, "not made meanwhile"},
		{"older than the job, and its values set since", with(func(s *semSet) { s.id = 6 }), []int{4001}, false, "not made meanwhile"},
		{"in the second of the job's start", with(func(s *semSet) { s.changed, s.operated = at(0).Unix(), 0 }), []int{4001}, false, "1"},
		{"used before the process: it has the PID of another", with(func(s *semSet) { s.changed, s.operated = at(0).Unix(), 0 }), []int{4002}, true, "used by others"},
		{"used after its end: another has its PID", with(func(s *semSet) { s.operated = at(12).Unix() }), []int{4001, 4001}, false, "used by others"},
		{"changed after its end", with(func(s *semSet) { s.changed = at(12).Unix() }), []int{4001, 4001}, false, "used by others"},
		{"used in the second after", with(func(s *semSet) { s.operated = at(11).Unix() }), []int{4001, 4001}, false, "1"},
		{"last used by one, after the other has ended", with(func(s *semSet) { s.operated = at(14).Unix() }), []int{4001, 4004}, false, "1"},
		{"used by one after its end, with another that ran then", with(func(s *semSet) { s.operated = at(3).Unix() }), []int{4001, 4004}, false, "used by others"},
	} {
		b := newTestTracker(test.always)
		b.setsBefore = map[int]bool{6: true}
		b.NoteEnded(Process{PID: 4004, Rank: 1, Started: at(8), Leader: false}, at(15))
		got := "not made meanwhile"
		for _, s := range b.madeMeanwhile([]semSet{test.s}, us) {
			got = "used by others"
			if rank, ours := b.isOfJob(s, test.pids); ours {
				got = strconv.Itoa(rank)
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// actOnSets does what its arguments say, one after the other, and reports each with the ID of the set. new makes a set
// of 3 semaphores and uses those with the given numbers; use, with an ID and a number, uses one. Then it waits for its end.
func actOnSets(args []string) {
	for _, arg := range args {
		words := strings.Fields(arg)
		var id int
		var err error
		switch words[0] {
		case "new":
			id, err = newSet()
			for number := range 3 {
				if err == nil && slices.Contains(words[1:], strconv.Itoa(number)) {
					err = useSemaphore(id, number)
				}
			}
		case "use":
			id, _ = strconv.Atoi(words[1])
			number, _ := strconv.Atoi(words[2])
			err = useSemaphore(id, number)
		}
		fmt.Println(id, err)
	}
	bufio.NewReader(os.Stdin).ReadByte()
}

// newSet makes a set of 3 semaphores.
func newSet() (int, error) {
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, 3, unix.IPC_CREAT|0o600)
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}

// useSemaphore adds 1 to a semaphore.
func useSemaphore(id, number int) error {
	op := struct {
		number      uint16
		change, how int16
	}{uint16(number), 1, 0}
	if _, _, errno := unix.Syscall(unix.SYS_SEMOP, uintptr(id), uintptr(unsafe.Pointer(&op)), 1); errno != 0 {
		return errno
	}
	return nil
}

// setExists reports whether a set exists.
func setExists(id int) bool {
	_, err := semValue(id, 0, semGetNCnt)
	return err == nil
}

// startOnSets starts a process that acts on sets, and returns it with the sets.
func startOnSets(t *testing.T, number int, actions ...string) (*rank, []int) {
	cmd := exec.Command(os.Args[0], append([]string{"sets"}, actions...)...)
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
	var sets []int
	t.Cleanup(func() {
		stdin.Close()
		if cmd.ProcessState == nil {
			cmd.Wait()
		}
		for _, id := range sets {
			semctl(id, unix.IPC_RMID)
		}
	})
	lines := bufio.NewScanner(stdout)
	for range actions {
		lines.Scan()
		text, outcome, _ := strings.Cut(lines.Text(), " ")
		if outcome != "<nil>" {
			t.Skipf("semaphores cannot be made here: %s", outcome)
		}
		id, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, id)
	}
	look, _ := proc.ReadInfo(cmd.Process.Pid)
	return &rank{cmd: cmd, Process: Process{PID: cmd.Process.Pid, Rank: number, Started: look.StartTime.Time(), Leader: true}}, sets
}

// The sets whose semaphores killed ranks used last are removed and reported. Others stay and are counted: with a
// semaphore that nobody has used, older than the job, or used last by a process of no job.
func TestFreeSets(t *testing.T) {
	_, before := startOnSets(t, 9, "new")
	b := NewTracker(false)
	b.freeTimeout = time.Hour // however slow this machine is
	one, sets := startOnSets(t, 1, "new 0 1 2", "new 0 1", "new 0 1 2",
		fmt.Sprint("use ", before[0], " 0"), fmt.Sprint("use ", before[0], " 1"), fmt.Sprint("use ", before[0], " 2"))
	startOnSets(t, 9, fmt.Sprint("use ", sets[2], " 1"))
	one.kill(b)
	o := b.Free()
	var told []string
	for _, r := range o.Freed {
		told = append(told, fmt.Sprint(r.Kind, " ", r.ID, " ", r.Bytes, " ", r.Rank, r.Err))
	}
	if want := []string{fmt.Sprint(job.LeftoverSysVSem, " ", sets[0], " 0 1")}; !slices.Equal(told, want) {
		t.Errorf("told  %q\nwant %q", told, want)
	}
	if setExists(sets[0]) || !setExists(sets[1]) || !setExists(sets[2]) || !setExists(before[0]) {
		t.Errorf("all used %v, one not used %v, one used by another %v, older %v", setExists(sets[0]), setExists(sets[1]), setExists(sets[2]), setExists(before[0]))
	}
	if o.Semaphores < 2 { // other programs on this machine may make sets, too
		t.Errorf("%d other sets are counted, want 2", o.Semaphores)
	}
}

// A set for which a process waits stays, and so does one that is used between the two looks.
func TestFreeSetsInUse(t *testing.T) {
	b := NewTracker(false)
	one, sets := startOnSets(t, 1, "new 0 1 2")
	one.kill(b)
	waiter := exec.Command("perl", "-e", fmt.Sprintf(`semop(%d, pack("s!3", 0, -100, 0))`, sets[0]))
	if err := waiter.Start(); err != nil {
		t.Skip(err)
	}
	defer waiter.Wait()
	defer waiter.Process.Kill()
	for n := 0; n == 0; n, _ = semValue(sets[0], 0, semGetNCnt) {
		time.Sleep(time.Millisecond)
	}
	all := func(int) bool { return true }
	s := semSet{id: sets[0], semaphores: 3}
	if pids, idle := s.lastPIDs(time.Now().Add(time.Hour), all); idle {
		t.Errorf("a process waits for it: %v", pids)
	}
	if o := b.Free(); len(o.Freed) > 0 || !setExists(sets[0]) {
		t.Errorf("freed: %v", o.Freed)
	}
	waiter.Process.Kill()
	waiter.Wait()
	if pids, idle := s.lastPIDs(time.Now().Add(-time.Hour), all); idle {
		t.Errorf("there was no time: %v", pids)
	}
	if pids, idle := s.lastPIDs(time.Now().Add(time.Hour), all); !idle || !slices.Equal(pids, []int{one.PID, one.PID, one.PID}) {
		t.Errorf("pids %v, want three times %d", pids, one.PID)
	}
	s.semaphores = 4 // more than there are
	if pids, idle := s.lastPIDs(time.Now().Add(time.Hour), all); idle {
		t.Errorf("not all semaphores were seen: %v", pids)
	}
}
