//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"remshell/pmiserver/transcript"
)

// peakMemory is the most memory that mpiexec has had so far, in MiB; 0: it has ended.
func (th *pmiReplay) peakMemory() (mib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", th.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fmt.Sscan(rest, &mib)
	return mib >> 10
}

// newHostileReplay is a job of ranks on this machine, whose parts are played here, and the memory that
// mpiexec has when it has begun.
func newHostileReplay(t *testing.T, ranks int) (th *pmiReplay, began int) {
	th = newPMIReplay(t, transcript.Case{Job: transcript.Job{Size: ranks, Name: "k0"}}, bundledProgram(t, "pmiplay"))
	th.initRanks()
	return th, th.peakMemory()
}

// sendAsync has a rank say all of it, while its answers are read by somebody else.
func (th *pmiReplay) sendAsync(rank int, text []byte) <-chan error {
	said := make(chan error, 1)
	th.conns[rank].SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, err := th.conns[rank].Write(text)
		said <- err
	}()
	return said
}

// readLine reads a line that a rank is told.
func (th *pmiReplay) readLine(rank int) string {
	th.t.Helper()
	line, err := th.ranks[rank].ReadString('\n')
	if err != nil {
		th.t.Fatalf("rank %d: %q, %v: %s", rank, line, err, &th.out)
	}
	return line
}

// finalizeRank ends a rank as a good one does.
func (th *pmiReplay) finalizeRank(rank int) {
	th.t.Helper()
	th.conns[rank].Write([]byte("cmd=finalize\n"))
	th.checkReceived(rank, []byte("cmd=finalize_ack rc=0\n"), "finalize")
	th.conns[rank].Close()
}

// endsWith waits for the end of the job.
func (th *pmiReplay) endsWith(code int) {
	th.t.Helper()
	<-th.ended
	if got := exitCode(th.cmd.ProcessState); got != code {
		th.t.Errorf("exit %d, want %d: %s", got, code, &th.out)
	}
}

// A job keeps 1,024 names and no more, whoever publishes 100,000; the others live well beside
// that (TRUST-24).
func TestRankPublishesWithoutEnd(t *testing.T) {
	th, began := newHostileReplay(t, 2)
	const names = 100_000
	var all bytes.Buffer
	for i := range names {
		fmt.Fprintf(&all, "cmd=publish_name service=%0200d port=p\n", i)
	}
	said := th.sendAsync(0, all.Bytes())
	taken, full := 0, 0
	for range names {
		switch line := th.readLine(0); {
		case strings.Contains(line, "rc=0"):
			taken++
		case strings.Contains(line, "name_table_full"):
			full++
		default:
			t.Fatalf("told %q", line)
		}
	}
	if err := <-said; err != nil || taken != 1024 || full != names-1024 {
		t.Errorf("%v; %d names were taken, %d refused", err, taken, full)
	}
	th.conns[1].Write([]byte("cmd=put key=a value=b\ncmd=get key=a\n"))
	th.readLine(1)
	if line := th.readLine(1); !strings.Contains(line, "value=b") {
		t.Errorf("the other rank is told %q", line)
	}
	if grown := th.peakMemory() - began; began == 0 || grown > 40 {
		t.Errorf("mpiexec took %d MiB", grown)
	}
	th.finalizeRank(1)
	th.finalizeRank(0)
	th.endsWith(0)
}

// A rank that asks and does not listen stops itself: it is not read any more. The others go
// on, and when it listens it hears all (TRUST-24).
func TestRankThatDoesNotListen(t *testing.T) {
	th, began := newHostileReplay(t, 2)
	const requests = 200_000
	said := th.sendAsync(0, bytes.Repeat([]byte("cmd=get key=none\n"), requests))
	for i := range 5000 { // the other one meanwhile
		fmt.Fprintf(th.conns[1], "cmd=put key=k%d value=%d\n", i%10, i)
		th.readLine(1)
	}
	th.finalizeRank(1)
	select {
	case err := <-said:
		t.Errorf("all of %d requests were taken without an answer being read: %v", requests, err)
	default:
	}
	if grown := th.peakMemory() - began; began == 0 || grown > 40 {
		t.Errorf("mpiexec took %d MiB", grown)
	}
	for i := range requests {
		if line := th.readLine(0); line != "cmd=get_result rc=-1 msg=key_not_found\n" {
			t.Fatalf("answer %d is %q", i, line)
		}
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
	th.finalizeRank(0)
	th.endsWith(0)
}

// A line without end is no request after 64 KiB; it ends its job and nothing else (TRUST-24).
func TestRankWithALineWithoutEnd(t *testing.T) {
	th, began := newHostileReplay(t, 2)
	go func() {
		line := bytes.Repeat([]byte("x"), 64<<10)
		for range 1000 {
			if _, err := th.conns[0].Write(line); err != nil {
				break // nobody reads it any more
			}
		}
	}()
	most := 0
	for now := began; now > 0; now = th.peakMemory() {
		most = max(most, now)
	}
	th.endsWith(1)
	if !strings.Contains(th.out.String(), "rank 0") {
		t.Errorf("mpiexec says %s", &th.out)
	}
	if began == 0 || most-began > 40 {
		t.Errorf("mpiexec took %d MiB, after %d", most, began)
	}
}
