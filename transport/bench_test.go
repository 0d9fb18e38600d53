package transport

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The cost of finding the binary on a node: a start through /bin/sh, compared with starting the binary
// directly.
func BenchmarkStart(b *testing.B) {
	run := func(b *testing.B, n *node, s HelperBinary) {
		for b.Loop() {
			p := n.start(b)
			conn, err := s.deliverIn(b.Context(), p, time.Minute)
			if err != nil {
				b.Fatal(err)
			}
			p.in.Close()
			io.Copy(io.Discard, conn)
			p.Close()
		}
	}
	b.Run("cache", func(b *testing.B) {
		n, s := newNode(b, "/bin/sh"), self(b)
		n.reach(b, s, "sent").Close()
		run(b, n, s)
	})
	b.Run("shared", func(b *testing.B) {
		n := newNode(b, "/bin/sh")
		run(b, n, installed(b, n.home))
	})
	b.Run("program alone", func(b *testing.B) {
		s := installed(b, b.TempDir())
		for b.Loop() {
			cmd := exec.Command(s.Path, "--helper", s.Build)
			cmd.Dir = os.TempDir()
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
