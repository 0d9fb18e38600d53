//go:build linux

package helper

import (
	"encoding/binary"
	"maps"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

func TestLeftoverProcessesOfAJob(t *testing.T) {
	const rank, ended = 70, 80 // the first lived when mpiexec died, the second ended at 500
	look := func(pid, group, session int, born proc.StartTicks) proc.Info {
		return proc.Info{PID: pid, Group: group, Session: session, StartTime: born, State: 'S'}
	}
	zombie := look(rank, rank, rank, 100)
	zombie.State = 'Z'
	for name, test := range map[string]struct {
		all    []proc.Info
		marked int
		want   []int
		taken  map[int]proc.StartTicks
	}{
		"nothing":                        {nil, 0, nil, map[int]proc.StartTicks{}},
		"another process":                {[]proc.Info{look(5, 5, 5, 100)}, 0, nil, map[int]proc.StartTicks{}},
		"by its mark":                    {[]proc.Info{look(5, 5, 5, 100)}, 5, []int{5}, map[int]proc.StartTicks{}},
		"the rank itself":                {[]proc.Info{look(rank, rank, rank, 100)}, 0, []int{rank}, map[int]proc.StartTicks{rank: 0}},
		"in its session":                 {[]proc.Info{look(71, 71, rank, 100)}, 0, []int{71}, map[int]proc.StartTicks{rank: 0}},
		"in its group":                   {[]proc.Info{look(71, rank, 1, 100)}, 0, []int{71}, map[int]proc.StartTicks{rank: 0}},
		"a zombie takes its number":      {[]proc.Info{zombie}, 0, nil, map[int]proc.StartTicks{rank: 0}},
		"of a rank that had ended":       {[]proc.Info{look(81, ended, ended, 499)}, 0, []int{81}, map[int]proc.StartTicks{ended: 500}},
		"another process has its PID":    {[]proc.Info{look(ended, ended, ended, 501)}, 0, nil, map[int]proc.StartTicks{}},
		"a child of that process":        {[]proc.Info{look(82, 82, ended, 502)}, 0, nil, map[int]proc.StartTicks{}},
		"without a session that we know": {[]proc.Info{look(5, 0, 0, 100)}, 0, nil, map[int]proc.StartTicks{}},
	} {
		told, _ := binary.Append(nil, binary.NativeEndian, []rankRecord{{}, {PID: rank}, {PID: ended}, {PID: ended, Ended: 500}})
		l := leftJob{ranks: parseRankRecords(told)}
		var got []int
		for _, p := range l.jobProcesses(test.all, func(pid int) bool { return pid == test.marked }) {
			got = append(got, p.PID)
		}
		if !reflect.DeepEqual(got, test.want) || !maps.Equal(l.ranks, test.taken) {
			t.Errorf("%s: %v, taken %v; want %v, %v", name, got, l.ranks, test.want, test.taken)
		}
	}
}

// A guard whose pipe is full says so, and never receives a part of a record.
func TestAGuardWithAFullPipe(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	read := func() (all []byte) {
		room := make([]byte, 1<<16)
		for n, err := unix.Read(fds[0], room); err == nil; n, err = unix.Read(fds[0], room) {
			all = append(all, room[:n]...)
		}
		return all
	}
	g := guard{pid: 1, pipe: fds[1]}
	for n := uint32(1); g.sendRanks(rankRecord{PID: n, Ended: uint64(n)}); n++ {
	}
	for pid, ended := range parseRankRecords(read()) {
		if int(ended) != pid {
			t.Fatalf("rank %d ended at %d", pid, ended)
		}
	}
	if many := make([]rankRecord, 1<<20); g.sendRanks(many...) {
		t.Error("so many were told")
	}
	if rest := read(); len(rest)%rankRecordSize != 0 || len(rest) == 0 {
		t.Errorf("%d bytes were written", len(rest))
	}
}
