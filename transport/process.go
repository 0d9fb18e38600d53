package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/sshx"
)

// A localCommand is a program and our ends of its stdin and stdout. It has a session
// and process group of its own, so that ^C on our terminal does not reach it and
// it cannot ask there for a password; a helper under PBS has a process group only.
type localCommand struct {
	cmd        *exec.Cmd
	in, out    *os.File
	stderrTail sshx.Tail
	interpret  stderrReader
	stop       func(*localCommand) // ends it, or waits for it, when the streams are closed
	once       sync.Once
	signaled   atomic.Bool   // we have told it to end
	done       chan struct{} // closed when it has ended and been cleaned up behind
	status     error         // of cmd.Wait; read it after done
}

// stderrDelay is how long a program's stderr is waited for after its end, where
// something it left behind keeps it open.
const stderrDelay = 100 * time.Millisecond

// startProcess starts cmd. When it has ended, after is called before done is closed.
func startProcess(cmd *exec.Cmd, stop, after func(*localCommand)) (*localCommand, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		in.Close()
		return nil, err
	}
	p := &localCommand{cmd: cmd, in: in, out: out, stop: stop, interpret: defaultStderrReader, done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &p.stderrTail
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	cmd.WaitDelay = stderrDelay
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go func() {
		p.status = cmd.Wait()
		after(p)
		close(p.done)
	}()
	return p, nil
}

func (p *localCommand) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *localCommand) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *localCommand) stderr() string              { return p.stderrTail.String() }
func (p *localCommand) verdict(exit int) Verdict    { return p.interpret.verdict(p.stderr(), exit) }
func (p *localCommand) localAddr() net.Addr         { return nil }
func (p *localCommand) silence() time.Duration      { return 0 }

// Close closes the streams, which is a helper's sign to end, and sees to the process.
func (p *localCommand) Close() error {
	p.once.Do(func() {
		p.in.Close()
		p.out.Close()
		p.stop(p)
	})
	return nil
}

// waitFor waits for the end, but not longer than limit, and reports whether it came.
func (p *localCommand) waitFor(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// ended tells how the program ended. If we have told it to, that is no reason, nor is what it says of it: ssh ends with 255 then, and
// "Killed by signal 15."
func (p *localCommand) ended(limit time.Duration) linkEnd {
	if !p.waitFor(limit) {
		return linkEnd{exit: -1}
	}
	end := linkEnd{exit: exitCode(p.cmd.ProcessState)}
	if !p.signaled.Load() {
		end.why = p.interpret.why(p.status, p.stderr())
	}
	return end
}

// signalGroup tells the program to end, with all that it has started in its process group.
func (p *localCommand) signalGroup(sig syscall.Signal) {
	p.signaled.Store(true)
	syscall.Kill(-p.cmd.Process.Pid, sig)
}

// exitCode is what a shell would say: a signal is told by a code above 128.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// withLastLine adds the last line of stderr, if there is one.
func withLastLine(why, stderr string) string {
	if line := lastLine(stderr); line != "" {
		why += ": " + line
	}
	return why
}

// waitErrorText puts the error of exec.Cmd.Wait in our words.
func waitErrorText(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return exitText(0) // also after exec.ErrWaitDelay
	}
	return exitText(exitCode(exit.ProcessState))
}

// maxSignal is the largest signal of Linux (signal(7)).
const maxSignal = 64

// exitText says how a program ended. The keeper of a helper, like a shell, tells a
// signal by a code above 128.
func exitText(code int) string {
	if signal := code - 128; 0 < signal && signal <= maxSignal {
		return fmt.Sprintf("killed by signal %d", signal)
	}
	return fmt.Sprintf("exit code %d", code)
}
