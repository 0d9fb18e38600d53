//go:build linux

package nodestate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
)

const otherUserEnv = "STATUS_TEST_ENEMY"

// otherUID is a user without an account. This test binary serves status sockets as that user.
const otherUID = 60124

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(otherUserEnv)); len(words) == 3 {
		var sockets int
		fmt.Sscan(words[2], &sockets)
		fmt.Println(serveAsOtherUser(job.ID(words[0]), words[1], sockets))
		return
	}
	os.Exit(m.Run())
}

// serveAsOtherUser serves the given number of sockets of a job, as if processes 1, 2, ... were its helpers, until standard input ends.
func serveAsOtherUser(id job.ID, attack string, sockets int) error {
	dir := socketDirs(os.Geteuid())[1]
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for pid := 1; pid <= sockets; pid++ {
		l, err := net.Listen("unix", filepath.Join(dir, socketName(id, fmt.Sprint(pid))))
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go attackConn(conn, attack)
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return nil
}

func attackConn(conn net.Conn, attack string) {
	var err error
	write := func(text string) {
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
	}
	switch attack {
	case "silent":
	case "objects":
		write("[" + strings.Repeat("{},", 2_700_000) + "{}]\n")
		conn.Close()
	case "ranks": // only rank 0 is claimed
		write("[")
		for rank := 0; err == nil; rank++ {
			write(fmt.Sprintf(`{"Rank":%d,"Life":"running"},`, rank))
		}
	case "repeats":
		for write("["); err == nil; {
			write(strings.Repeat(`{"Rank":0,"Life":"running"},`, 1000))
		}
	case "word":
		for write(`[{"Rank":0,"Life":"`); err == nil; {
			write(strings.Repeat("x", 1<<20))
		}
	case "depth":
		for write(`[{"Rank":`); err == nil; {
			write(strings.Repeat("[", 1<<20))
		}
	case "drip":
		for write("["); err == nil; time.Sleep(50 * time.Millisecond) {
			write(" ")
		}
	}
}

// startOtherUser runs serveAsOtherUser as another user.
func startOtherUser(t *testing.T, id job.ID, attack string, sockets int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", otherUserEnv, id, attack, sockets))
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUID, Gid: otherUID}, Pdeathsig: syscall.SIGKILL}
	to, err1 := cmd.StdinPipe()
	from, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		to.Close()
		cmd.Wait()
		os.Remove(socketDirs(otherUID)[1])
	})
	if line, err := bufio.NewReader(from).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
}

// cost returns the memory that f allocates, and the time that it takes.
func cost(f func()) (bytes uint64, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}

// The sockets of a hostile user cost bounded memory, and all of them together no more than totalTimeout. States
// of ranks that the user has not claimed are dropped.
func TestSocketsOfAnotherUser(t *testing.T) {
	for _, test := range []struct {
		attack string
		want   int // number of states returned
	}{{"objects", 1}, {"ranks", 5000}, {"repeats", 1}, {"word", 0}, {"depth", 0}, {"silent", 0}, {"drip", 0}} {
		t.Run(test.attack, func(t *testing.T) {
			const sockets = 30
			of := job.Key{Job: jobOf(t), UID: otherUID}
			startOtherUser(t, of.Job, test.attack, sockets)
			ranks := make([]int, 5000)
			for i := range ranks {
				ranks[i] = i
			}
			claims := claimsOf(of, 1, ranks...)
			for pid := 2; pid <= sockets; pid++ {
				claims = append(claims, claimsOf(of, pid)...)
			}
			var got []job.RankState
			bytes, took := cost(func() { got = Collect(of, claims) })
			if len(got) != test.want || bytes > 64<<20 || took > totalTimeout+10*time.Second {
				t.Errorf("%d states, want %d; %d MiB were allocated in %v", len(got), test.want, bytes>>20, took)
			}
			t.Logf("%d MiB were allocated in %v", bytes>>20, took)
		})
	}
}

// A socket that is a link is not connected to, and nothing of another user is removed.
func TestSocketsThatAreLinks(t *testing.T) {
	of := job.Key{Job: jobOf(t), UID: otherUID}
	startOtherUser(t, of.Job, "silent", 0)
	asked := false
	other := opened(t, func() ([]job.RankState, bool) { asked = true; return []job.RankState{{Rank: 1}}, true })
	dir := socketDirs(otherUID)[1]
	name := filepath.Join(dir, socketName(of.Job, "1"))
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName(of.Job, "2")), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	defer os.Remove(dead.Addr().String())
	if err := os.Symlink(other.listener.Addr().String(), name); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	if got := Collect(of, append(claimsOf(of, 1, 1), claimsOf(of, 2, 2)...)); len(got) > 0 || asked {
		t.Errorf("%+v, the other socket was asked: %v", got, asked)
	}
	if _, err := os.Lstat(dead.Addr().String()); err != nil {
		t.Error(err)
	}
}

// Whatever a helper sends is read within the limits of the claims.
func FuzzStates(f *testing.F) {
	for _, text := range []string{"", "[", "[]", "null", "{}", `[{"Rank":1,"Life":"running"},{"Rank":1},{"Rank":99}]`, `[{"Rank":1e9}]`, `[{"Rank":2,"Stack":"x","Waits":"` + strings.Repeat("é", 300) + `"}]`} {
		f.Add(text)
	}
	of := job.Key{Job: "j", UID: 1}
	f.Fuzz(func(t *testing.T, text string) {
		a := newStateCollector(of, claimsOf(of, 1, 1, 2))
		before := a.bytesLeft
		a.readStates(strings.NewReader(text))
		seen := make(map[int]bool)
		for _, s := range a.states {
			if seen[s.Rank] || s.Rank != 1 && s.Rank != 2 || max(len(s.Phase), len(s.WaitsFor), len(s.WaitChannel), len(s.ProcState)) > 256 {
				t.Errorf("%+v of %q", s, text)
			}
			seen[s.Rank] = true
		}
		if a.bytesLeft > before || a.bytesLeft < 0 {
			t.Errorf("%d bytes are left of %d", a.bytesLeft, before)
		}
	})
}
