//go:build linux

package rank

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What is written after a rank's output is read as if the rank had written it. The stream ends when both have closed
// it.
func TestWriteEnd(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		p, err := openWith(func(p *Pipes) error {
			if terminal {
				return p.openTerminal(true, unix.Winsize{})
			}
			return p.openStreams(false, false)
		})
		if err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(p.theirs[1]), "rank")
		p.theirs[1] = -1
		theirs.WriteString("rank.")
		ours := p.Stdout()
		behind, err := OpenWriteEnd(ours, terminal)
		if err != nil {
			t.Fatal(err)
		}
		behind.WriteString("help.")
		behind.Close()
		theirs.Close()
		p.close(p.theirs[:])
		said, _ := io.ReadAll(ours) // the end of a terminal is an error
		if string(said) != "rank.help." {
			t.Errorf("terminal %v: read %q", terminal, said)
		}
		p.Close()
		ours.Close()
		if _, err := OpenWriteEnd(ours, terminal); err == nil {
			t.Error("a stream that we have closed is opened")
		}
	}
}

// More than the pipe holds arrives when it is read.
func TestMuchAtTheWriteEnd(t *testing.T) {
	p, err := openPipes(false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ours := p.Stdout()
	defer ours.Close()
	behind, err := OpenWriteEnd(ours, false)
	if err != nil {
		t.Fatal(err)
	}
	p.close(p.theirs[:])
	text := strings.Repeat("help\n", 1<<18)
	go func() {
		behind.WriteString(text)
		behind.Close()
	}()
	if said, err := io.ReadAll(ours); string(said) != text {
		t.Errorf("%d bytes of %d, %v", len(said), len(text), err)
	}
}
