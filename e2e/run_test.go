//go:build linux

package e2e

import (
	"strings"
	"testing"

	"remshell/field"
)

func TestHello(t *testing.T) {
	hello := mpi(t, "hello")
	b := newBed(t, field.Options{Hosts: 4})
	r := b.run(t, "-hosts", b.Names(), "-n", "8", hello)
	r.good(t)
	if !strings.Contains(r.out, "ring ok") {
		t.Error(r.out)
	}
}
