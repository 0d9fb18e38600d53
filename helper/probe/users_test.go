//go:build linux

package probe

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Names of users in a directory service come from getent only. A getent that hangs is waited for a second.
func TestUserNames(t *testing.T) {
	if got := UserNames(t.Context(), []int{0, 4_000_000_000}); !maps.Equal(got, map[int]string{0: "root"}) {
		t.Errorf("this machine's getent: %v", got)
	}
	for name, test := range map[string]struct {
		script string
		want   map[int]string
	}{
		"a directory service": {`echo "$0 $*" >&2; [ "$*" = "passwd 7 8 9" ] && echo ann:x:7:7::/:/bin/sh && echo; echo ben:x:9:9::/:/bin/sh; exit 2`, map[int]string{7: "ann", 9: "ben"}},
		"nonsense":            {"echo; echo x:y; echo eve:x:1:1::/:; echo eve:x:seven:1::/:", nil},
		"no end":              {"while :; do echo ann:x:8:8::/:; done", map[int]string{8: "ann"}},
		"silence":             {"exec sleep 1000", nil},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		began := time.Now()
		got := UserNames(t.Context(), []int{7, 8, 9})
		if !maps.Equal(got, test.want) || time.Since(began) > userLookupTimeout+time.Minute {
			t.Errorf("%s: %v after %v, want %v", name, got, time.Since(began), test.want)
		}
	}
}
