//go:build linux

package probe

import (
	"testing"
)

// A helper looks at its machine before it says its first word, so each job waits for it.
func BenchmarkProbe(b *testing.B) {
	root := RootFS("")
	for b.Loop() {
		if _, err := Node(root, nil); err != nil {
			b.Fatal(err)
		}
	}
}
