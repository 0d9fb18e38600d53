//go:build linux

package helper

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/wire"
)

// A rank has mpiexec's limits from its first instruction on.
func TestARankIsBornWithItsLimits(t *testing.T) {
	const script = "ulimit -Sn; ulimit -Sf; ulimit -Sl; ulimit -St; ulimit -Sv; ulimit -Ss"
	const want = "321\n2048\n32\n7777\n1073741824\n4000\n" // shells count blocks of 512 bytes, and KiB
	var before [16]unix.Rlimit
	for i := range before {
		unix.Getrlimit(i, &before[i])
	}
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Streams.Stdin = nil
		m.Process.SoftLimits = []job.SoftLimit{{Resource: unix.RLIMIT_NOFILE, Soft: 321}, {Resource: unix.RLIMIT_FSIZE, Soft: 1 << 20},
			{Resource: unix.RLIMIT_MEMLOCK, Soft: 32 << 10}, {Resource: unix.RLIMIT_CPU, Soft: 7777},
			{Resource: unix.RLIMIT_AS, Soft: 1 << 40}, {Resource: unix.RLIMIT_STACK, Soft: 4000 << 10}}
	}, slices.Repeat([]string{script}, 30)...)
	k.conn.Send(&wire.Start{})
	for range 30 {
		exit := receive[*wire.Exited](k).Exit
		if got := k.out[exit.Rank]; got != want {
			t.Errorf("rank %d: %q, want %q", exit.Rank, got, want)
		}
	}
	k.bye()
	unix.Setrlimit(unix.RLIMIT_STACK, &before[unix.RLIMIT_STACK])
	for i := range before {
		var after unix.Rlimit
		if unix.Getrlimit(i, &after); after != before[i] {
			t.Errorf("limit %d of our own was %v, and is %v", i, before[i], after)
		}
	}
}
