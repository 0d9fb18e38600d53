//go:build linux

package testbed

import (
	"os/exec"
	"testing"
)

// BenchmarkStart measures the start of a program outside the cluster, on the head by Command, and on the head by Enter.
func BenchmarkStart(b *testing.B) {
	f, err := Up(b.Context(), Options{Hosts: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Down()
	loop := func(command func() *exec.Cmd) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if err := command().Run(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	plain := func() *exec.Cmd { return exec.Command("/bin/true") }
	b.Run("outside", loop(plain))
	b.Run("Command", loop(func() *exec.Cmd { return f.Command(b.Context(), nil, "/bin/true") }))
	b.Run("Enter", func(b *testing.B) {
		if err := f.Enter(func() { loop(plain)(b) }); err != nil {
			b.Fatal(err)
		}
	})
}
