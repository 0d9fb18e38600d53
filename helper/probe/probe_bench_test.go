//go:build linux

package probe

import (
	"testing"
)

// A helper probes its machine before its first message, so each job waits for it.
func BenchmarkProbe(b *testing.B) {
	root := RootFS("")
	for b.Loop() {
		if _, err := Node(root, nil); err != nil {
			b.Fatal(err)
		}
	}
}
