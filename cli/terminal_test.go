//go:build linux

package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/launch"
	"remshell/test/ptytest"
)

// TestMain also runs the two child processes of TestBackgroundReadDoesNotStop.
func TestMain(m *testing.M) {
	switch os.Getenv("CLI_TEST_PART") {
	case "shell":
		runShellPart()
	case "reader":
		runReaderPart()
	default:
		os.Exit(m.Run())
	}
}

// A job that waits for input is stopped (^Z) and continued in the background (bg). Its pending read must not stop it
// there again. It gets its input once it is in the foreground (IO-5).
func TestBackgroundReadDoesNotStop(t *testing.T) {
	master, slave := ptytest.Open(t)
	cmd := partCommand("shell", slave, os.Stderr)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	shellOut, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(master, "one\n")
	lines := bufio.NewScanner(shellOut)
	for lines.Scan() {
		t.Log(lines.Text())
		if lines.Text() == "foreground" {
			fmt.Fprint(master, "two\n")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// runShellPart is a shell whose user presses ^Z and types bg several times, and fg at the end.
func runShellPart() {
	signal.Ignore(syscall.SIGTTOU) // as shells do, since they change the foreground group from the background
	in, out, err := os.Pipe()
	must(err)
	job := partCommand("reader", os.Stdin, os.Stderr)
	job.Stdout = out
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true}
	must(job.Start())
	out.Close()
	pid := job.Process.Pid
	events, outputEnded := make(chan string), make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			events <- lines.Text()
		}
		close(outputEnded)
	}()
	go func() {
		for status := unix.WaitStatus(0x7f); status.Stopped(); events <- describeStatus(status) {
			unix.Wait4(pid, &status, unix.WUNTRACED, nil)
			if status.Exited() {
				<-outputEnded
			}
		}
	}()
	expect := func(word string) {
		if got := <-events; got != word {
			must(fmt.Errorf("the job: %q, not %q", got, word))
		}
		fmt.Println(word)
	}
	foreground := func(group int) { must(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)) }
	expect("one")
	foreground(unix.Getpgrp())
	for range 10 {
		must(unix.Kill(pid, unix.SIGSTOP))
		expect("stopped (signal)")
		must(unix.Kill(pid, unix.SIGCONT))
		expect("continued")
	}
	foreground(pid)
	fmt.Println("foreground")
	expect("two")
	expect("exit 0")
}

func describeStatus(status unix.WaitStatus) string {
	if status.Stopped() {
		return status.StopSignal().String()
	}
	return fmt.Sprint("exit ", status.ExitStatus())
}

// runReaderPart reads two lines as mpiexec does, and prints each, and "continued" for SIGCONT.
func runReaderPart() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCONT)
	go func() {
		for range signals {
			fmt.Println("continued")
		}
	}()
	lines := bufio.NewScanner(newForegroundReader(os.Stdin))
	for range 2 {
		lines.Scan()
		fmt.Println(lines.Text())
	}
}

func partCommand(part string, stdin, stderr *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CLI_TEST_PART="+part, "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stderr = stdin, stderr
	return cmd
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// With --pty the terminal is raw for the rank, and is restored afterwards.
func TestTheTerminalIsLent(t *testing.T) {
	_, slave := ptytest.Open(t)
	fd := int(slave.Fd())
	unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	env := launch.Env{In: slave}
	restore, err := lendTerminal(System{In: slave}, &env)
	if err != nil {
		t.Fatal(err)
	}
	lent, _ := unix.IoctlGetTermios(fd, unix.TCGETS)
	if lent.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 || lent.Oflag&unix.ONLCR == 0 {
		t.Errorf("flags are %#x and %#x", lent.Lflag, lent.Oflag)
	}
	if rows, cols := env.TerminalSize(); rows != 33 || cols != 77 {
		t.Errorf("size %d by %d", rows, cols)
	}
	syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
	<-env.TerminalResized
	restore()
	if after, _ := unix.IoctlGetTermios(fd, unix.TCGETS); *after != *before {
		t.Errorf("given back as %+v, was %+v", after, before)
	}
	env = launch.Env{In: strings.NewReader("")}
	if restore, err := lendTerminal(System{In: env.In}, &env); err != nil || env.TerminalSize != nil {
		t.Errorf("without a terminal: %v", err)
	} else {
		restore()
	}
}
