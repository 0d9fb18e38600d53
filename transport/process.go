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

// A localCommand is a program that this process has started on this machine, with pipes to its stdin and stdout.
// The program has its own session and process group. So ^C on the terminal does not reach the program, and the
// program cannot ask for a password on the terminal. As an exception, a helper started with LocalChild.KeepSession
// has only its own process group, in this process's session.
type localCommand struct {
	cmd        *exec.Cmd
	in, out    *os.File
	stderrTail sshx.Tail
	interpret  stderrReader
	stop       func(*localCommand) // called when the streams are closed; ends the program or waits for it
	once       sync.Once
	signaled   atomic.Bool   // a signal was sent to end it
	done       chan struct{} // closed when it has ended and afterExit has returned
	status     error         // result of cmd.Wait; valid after done
}

// stderrDelay is the maximum time to wait for the end of a program's stderr after the program has exited. Another
// process may keep stderr open for longer.
const stderrDelay = 100 * time.Millisecond

// startProcess starts cmd. The result's Close method calls stop. When the program has exited, startProcess calls
// afterExit, and then closes the result's channel done.
func startProcess(cmd *exec.Cmd, stop, afterExit func(*localCommand)) (*localCommand, error) {
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
		afterExit(p)
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

// Close closes the streams, so that a helper reads end of file and ends. After that it calls stop.
func (p *localCommand) Close() error {
	p.once.Do(func() {
		p.in.Close()
		p.out.Close()
		p.stop(p)
	})
	return nil
}

// waitFor waits up to limit for the program to end. It reports whether the program has ended.
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

// ended waits, at most for limit, for the program to end, and returns how it ended. The reason is empty if this process
// has ended the program, because ssh then only reports "Killed by signal 15.", which explains nothing.
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

// signalGroup sends a signal to the program's process group, and records that this process has ended the
// program.
func (p *localCommand) signalGroup(sig syscall.Signal) {
	p.signaled.Store(true)
	syscall.Kill(-p.cmd.Process.Pid, sig)
}

// exitCode returns the exit code of a process as a shell reports it. If a signal killed the process, exitCode
// returns 128 plus the number of the signal.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// withLastLine returns text with the last line of stderr appended, if there is one.
func withLastLine(text, stderr string) string {
	if line := lastLine(stderr); line != "" {
		text += ": " + line
	}
	return text
}

// waitErrorText returns a message for an error that exec.Cmd.Wait has returned.
func waitErrorText(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return exitText(0) // also after exec.ErrWaitDelay
	}
	return exitText(exitCode(exit.ProcessState))
}

// maxSignal is the highest signal number of Linux (signal(7)).
const maxSignal = 64

// exitText returns a phrase that explains a program's exit code. A code above 128 stands for a signal, because shells
// and a helper's reaper report signals in this way.
func exitText(code int) string {
	if signal := code - 128; 0 < signal && signal <= maxSignal {
		return fmt.Sprintf("killed by signal %d", signal)
	}
	return fmt.Sprintf("exit code %d", code)
}
