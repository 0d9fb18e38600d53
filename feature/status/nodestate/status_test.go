//go:build linux

package nodestate

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// jobOf returns a job ID that only one test has.
func jobOf(t *testing.T) job.ID {
	name := t.Name()
	return job.ID(fmt.Sprintf("%s-%d", name[strings.LastIndex(name, "/")+1:], os.Getpid()))
}

// claimsOf returns the claims of a user's job by a process.
func claimsOf(of job.Key, pid int, ranks ...int) []job.Claim {
	c := job.Claim{Job: of.Job, UID: of.UID, PID: pid}
	for _, rank := range ranks {
		c.Ranks = append(c.Ranks, job.ClaimedRank{Rank: rank})
	}
	return []job.Claim{c}
}

// askOwnHelpers requests the states of ranks of our own job, with this process as its helper.
func askOwnHelpers(id job.ID, ranks ...int) []job.RankState {
	of := job.Key{Job: id, UID: os.Geteuid()}
	return Collect(of, claimsOf(of, os.Getpid(), ranks...))
}

// opened returns a socket that serves a job's states.
func opened(t *testing.T, states func() ([]job.RankState, bool)) *Socket {
	t.Helper()
	s := new(Socket)
	s.Open(jobOf(t), states)
	t.Cleanup(s.Close)
	if s.listener == nil {
		t.Fatal("no socket was opened")
	}
	return s
}

// child starts a shell script with variables, and waits until it has reported that it is ready.
func child(t *testing.T, script string, environ ...string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(environ, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q: %q, %v", script, line, err)
	}
	return cmd.Process.Pid
}

// The states of a helper are returned to a request for its job, and to no other.
func TestCollect(t *testing.T) {
	want := []job.RankState{{Rank: 3, Phase: "running", PMI: job.PMIOpen, CPU: time.Second, Barrier: 2, WaitChannel: "ep_poll", ProcState: "S"}, {Rank: 4, Phase: "over"}}
	s := opened(t, func() ([]job.RankState, bool) { return want, true })
	s.Open(jobOf(t), func() ([]job.RankState, bool) { return nil, true }) // it is open already
	for range 2 {
		if got := askOwnHelpers(jobOf(t), 3, 4); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for _, id := range []job.ID{jobOf(t) + "0", "*", "", "../" + jobOf(t)} {
		if got := askOwnHelpers(id, 3, 4); got != nil {
			t.Errorf("job %q: %+v", id, got)
		}
	}
	s.Close()
	if got := askOwnHelpers(jobOf(t), 3, 4); got != nil {
		t.Errorf("after Close: %+v", got)
	}
}

// A helper that is leaving sends nothing, which is no state of a rank.
func TestCollectFromLeavingHelper(t *testing.T) {
	opened(t, func() ([]job.RankState, bool) { return nil, false })
	if got := askOwnHelpers(jobOf(t), 3, 4); got != nil {
		t.Errorf("%+v", got)
	}
}

// If no helper replies, the ranks themselves are found, without their children.
func TestCollectWithoutSocket(t *testing.T) {
	id := jobOf(t)
	child(t, "sleep 1000 & echo ready; wait", "MPIEXEC_JOBID="+string(id), "MPIEXEC_RANK=7")
	got := askOwnHelpers(id, 7)
	if len(got) != 1 || got[0].Rank != 7 || got[0].Phase != "alive" || got[0].ProcState == "" {
		t.Errorf("%+v", got)
	}
}

// Sockets of killed helpers are removed when the next one is opened, and at a request. Those with
// a server stay.
func TestSocketsOfKilledHelpersAreRemoved(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	unseen := exec.Command("true") // a zombie
	if err := unseen.Start(); err != nil {
		t.Fatal(err)
	}
	defer unseen.Wait()
	if err := unix.Waitid(unix.P_PID, unseen.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	s := opened(t, func() ([]job.RankState, bool) { return []job.RankState{{Rank: 1}}, true })
	alive := s.listener.Addr().String()
	for _, pid := range []int{gone.Process.Pid, unseen.Process.Pid} {
		dead := strings.TrimSuffix(alive, strconv.Itoa(os.Getpid())) + strconv.Itoa(pid)
		for _, sweeper := range []func(){func() { removeLeftSockets(filepath.Dir(alive)) }, func() {
			of := job.Key{Job: jobOf(t), UID: os.Geteuid()}
			Collect(of, claimsOf(of, pid, 1))
		}} {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
			sweeper()
			if _, err := os.Lstat(dead); err == nil {
				t.Errorf("%s is still there", dead)
				os.Remove(dead)
			}
			if _, err := os.Lstat(alive); err != nil {
				t.Error(err)
			}
		}
	}
}

// The socket of a job whose helper is known to be dead is removed, even if it seems to have a server. Those of others stay.
func TestRemoveSocket(t *testing.T) {
	s := opened(t, func() ([]job.RankState, bool) { return nil, true })
	name := s.listener.Addr().String()
	RemoveSocket(jobOf(t) + "0")
	RemoveSocket("*")
	if _, err := os.Lstat(name); err != nil {
		t.Error(err)
	}
	RemoveSocket(jobOf(t))
	if _, err := os.Lstat(name); err == nil {
		t.Errorf("%s is still there", name)
	}
}

// A directory that others can enter, or that is none, is not private.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link, file := dir+".link", dir+".file"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	if !isPrivateDir(dir, uid) {
		t.Error("a directory of mode 0700 is not private")
	}
	for name, got := range map[string]bool{"another user's": isPrivateDir(dir, uid+1), "a link": isPrivateDir(link, uid), "a file": isPrivateDir(file, uid), "nothing": isPrivateDir(dir+".none", uid)} {
		if got {
			t.Errorf("%s is private", name)
		}
	}
	for _, mode := range []os.FileMode{0o710, 0o701, 0o770, 0o750} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if isPrivateDir(dir, uid) {
			t.Errorf("mode %v is private", mode)
		}
	}
}
