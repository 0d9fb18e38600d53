package transport

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func dialChild(t *testing.T) *Conn {
	t.Helper()
	s := self(t)
	rw, err := dial(t, &LocalChild{Self: s}, "here")
	check(t, err)
	conn := guarded(t, rw)
	if line, err := conn.in.ReadString('\n'); line != "hello --helper-child "+s.Build+"\n" {
		t.Fatalf("helper says %q, %v", line, err)
	}
	return conn
}

func TestChild(t *testing.T) {
	conn := dialChild(t)
	io.WriteString(conn, "session\n")
	var pid, group int
	line, _ := conn.in.ReadString('\n')
	fmt.Sscan(line, &pid, &group)
	if pid == 0 || pid != group {
		t.Errorf("process %d in group %d, want one of its own", pid, group)
	}
	io.ReadFull(conn, make([]byte, len("session\n")))
	echoes(t, conn)
	conn.Close()
	eventually(t, "the helper is gone", func() bool { return !alive(pid) })
	if why := conn.Why(); why != "exit code 0" {
		t.Errorf("why %q", why)
	}
}

func TestChildTellsWhyItEnded(t *testing.T) {
	conn := dialChild(t)
	io.WriteString(conn, "exit  3\n")
	io.ReadAll(conn)
	if why := conn.Why(); why != "exit code 3: last words" {
		t.Errorf("why %q", why)
	}
}

// A killed helper leaves orphans, which are ended. Other children of this process go on.
func TestOrphansOfKilledHelper(t *testing.T) {
	older := sleeper(t, nil)
	check(t, exec.Command("sleep", "0.03").Run()) // start times differ only by clock ticks of 10 ms
	conn := dialChild(t)
	in, out, err := os.Pipe()
	check(t, err)
	defer in.Close()
	defer out.Close()
	proxy := sleeper(t, in)
	io.WriteString(conn, "orphans\n")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	var orphan int
	if _, err := fmt.Sscan(line, &orphan); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	begin := time.Now()
	check(t, conn.link.(*localCommand).cmd.Process.Kill())
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("read: %v, want the end", err)
	}
	eventually(t, "the orphan is gone", func() bool { return !alive(orphan) })
	t.Logf("orphan gone after %v", time.Since(begin))
	if why := conn.Why(); !strings.HasPrefix(why, "killed by signal 9") && why != "" {
		t.Errorf("why %q", why)
	}
	for name, pid := range map[string]int{"an older child": older, "a child that talks to us": proxy} {
		if !alive(pid) {
			t.Errorf("%s was ended", name)
		}
	}
}

// sleeper starts a child of this process.
func sleeper(t *testing.T, stdin *os.File) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}
