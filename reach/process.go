package reach

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
	cmd     *exec.Cmd
	in, out *os.File
	errs    sshx.Tail
	words   lastWordsOf
	stop    func(*localCommand) // ends it, or waits for it, when the streams are closed
	once    sync.Once
	struck  atomic.Bool   // we have told it to end
	done    chan struct{} // closed when it has ended and been cleaned up behind
	status  error         // of cmd.Wait; read it after done
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
	p := &localCommand{cmd: cmd, in: in, out: out, stop: stop, words: anyProgram, done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &p.errs
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
func (p *localCommand) stderr() string              { return p.errs.String() }
func (p *localCommand) verdict(exit int) Verdict    { return p.words.verdict(p.stderr(), exit) }
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

// within waits for the end, but not longer than limit, and reports whether it came.
func (p *localCommand) within(limit time.Duration) bool {
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
	if !p.within(limit) {
		return linkEnd{exit: -1}
	}
	end := linkEnd{exit: exitCode(p.cmd.ProcessState)}
	if !p.struck.Load() {
		end.why = p.words.why(p.status, p.stderr())
	}
	return end
}

// strike tells the program to end, with all that it has started in its process group.
func (p *localCommand) strike(sig syscall.Signal) {
	p.struck.Store(true)
	syscall.Kill(-p.cmd.Process.Pid, sig)
}

// exitCode is what a shell would say: a signal is told by a code above 128.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// withLine adds the last line of stderr, if there is one.
func withLine(why, stderr string) string {
	if line := lastLine(stderr); line != "" {
		why += ": " + line
	}
	return why
}

// howItEnded puts the error of exec.Cmd.Wait in our words.
func howItEnded(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return exitWords(0) // also after exec.ErrWaitDelay
	}
	return exitWords(exitCode(exit.ProcessState))
}

// maxSignal is the largest signal of Linux (signal(7)).
const maxSignal = 64

// exitWords says how a program ended. The keeper of a helper, like a shell, tells a
// signal by a code above 128.
func exitWords(code int) string {
	if signal := code - 128; 0 < signal && signal <= maxSignal {
		return fmt.Sprintf("killed by signal %d", signal)
	}
	return fmt.Sprintf("exit code %d", code)
}
