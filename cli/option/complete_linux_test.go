package option

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/test/ptytest"
)

// At a terminal, tab completes a word, also behind = and :, where bash itself splits words.
func TestCompletionInAnInteractiveBash(t *testing.T) {
	script := installTestPrograms(t, "bash")
	file := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(file, []byte(script+"\nPS1='READY> '\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	inFolder(t, dir)
	master, slave := ptytest.Open(t)
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--rcfile", file, "-i")
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), "TERM=dumb", "HOME="+t.TempDir(), "INPUTRC=/dev/null")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	screen := newTerminalReader(master)
	screen.until(t, "READY> ")
	for _, test := range []struct{ typed, becomes string }{
		{"mpiexec --bind-to hw\t", "mpiexec --bind-to hwthread "},
		{"mpirun --bind-to hw\t", "mpirun --bind-to hwthread "},
		{"mpiexec --map-by=nu\t", "mpiexec --map-by=numa "},
		{"mpiexec --map-by pp\t2", "mpiexec --map-by ppr:2"},
		{"mpiexec --evict 1\t", "mpiexec --evict 17-a "},
		{"mpiexec -host n1,loc\t", "mpiexec -host n1,localhost "},
		{"mpiexec --acc\t", "mpiexec --accept-new-host-keys "},
		{"bin/mpiexec --acc\t", "bin/mpiexec --accept-new-host-keys "}, // as make leaves it
	} {
		fmt.Fprint(master, test.typed+"END")
		screen.until(t, test.becomes+"END")
		fmt.Fprint(master, "\x15\n") // leave the line
		screen.until(t, "READY> ")
	}
	fmt.Fprint(master, "exit\n")
	cmd.Wait()
}

// A terminalReader collects the output of a terminal.
type terminalReader struct {
	pieces chan string
	text   string
}

func newTerminalReader(from io.Reader) *terminalReader {
	s := &terminalReader{pieces: make(chan string, 64)}
	go func() {
		defer close(s.pieces)
		for buffer := make([]byte, 4096); ; {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			s.pieces <- string(buffer[:n])
		}
	}()
	return s
}

// until waits for a text, and discards the output up to its end.
func (s *terminalReader) until(t *testing.T, text string) {
	t.Helper()
	late := time.After(5 * time.Minute)
	for {
		if _, rest, shown := strings.Cut(s.text, text); shown {
			s.text = rest
			return
		}
		select {
		case piece, more := <-s.pieces:
			if !more {
				t.Fatalf("bash ended; %q was to come after %q", text, s.text)
			}
			s.text += piece
		case <-late:
			t.Fatalf("%q does not come: %q", text, s.text)
		}
	}
}
