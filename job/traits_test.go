package job

import (
	"strings"
	"testing"
)

// The examples of which-hosts.md 2.1.
func TestInstalled(t *testing.T) {
	for mib, want := range map[int64]int64{64218: 65536, 128800: 131072, 31900: 32768, 65536: 65536, 1: 1, 15: 15, 17: 18, 0: 0, -1: 0} {
		if got := (Memory{Total: mib<<20 + 1<<19}).Installed() >> 20; got != want {
			t.Errorf("%d MiB: %d, want %d", mib, got, want)
		}
	}
}

func TestIsLabel(t *testing.T) {
	for text, want := range map[string]bool{"ib-hdr": true, "0x41_b.c+D": true, "": false, "a b": false, "a*": false, "ä": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false} {
		if IsLabel(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
